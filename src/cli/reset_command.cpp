#include "cli/reset_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/limits.hpp"
#include "cli/native_server.hpp"

namespace sluice::cli {
namespace {

constexpr const char* reset_description =
    R"(Releases all permits that a key's current window has given: its waiters get them first, and
newcomers find the rest. The key's limits stay, and so does the end of its window.

  sluicegate reset user-7

`sluicegate quota reset NAME` forgets what a subject has used of its quota.

Exit code: 0 when the server has done so, 2 when there was no answer or it refused. A key that
the server does not know is skipped: that is 0 as well (sluicegate debug KEY shows whether it is
known).
)";

struct ResetFlags {
  std::string key;
  NativeServer server;
};

int reset(const ResetFlags& flags) {
  check_key(flags.key);
  const auto connection = connect(flags.server, "reset");
  check_key_size(*connection, flags.key);
  connection->release(flags.key, limits::permits_max);
  std::puts("reset");
  return 0;
}

}  // namespace

void add_reset_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("reset", reset_description);
  const auto flags = std::make_shared<ResetFlags>();
  command->add_option("KEY", flags->key, "the key")->type_name("")->required();
  add_native_server(*command, flags->server);
  command->callback([flags, &run] { run = [flags] { return reset(*flags); }; });
}

}  // namespace sluice::cli
