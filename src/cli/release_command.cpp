#include "cli/release_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/between.hpp"
#include "cli/native_server.hpp"

namespace sluice::cli {
namespace {

constexpr const char* release_description =
    R"(Releases permits to a key's current window: its waiters get them first.

  sluicegate release user-7
  sluicegate release user-7 --cost 5

Exit code: 0 when the server has done so, 2 when there was no answer or it refused. A key that
the server does not know is skipped: that is 0 as well (sluicegate debug KEY shows whether it is
known).
)";

struct ReleaseFlags {
  std::string key;
  NativeServer server;
  uint32_t cost = 1;
};

int release(const ReleaseFlags& flags) {
  check_key(flags.key);
  const auto connection = connect(flags.server, "release");
  check_key_size(*connection, flags.key);
  connection->release(flags.key, flags.cost);
  std::puts("released");
  return 0;
}

}  // namespace

void add_release_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("release", release_description);
  const auto flags = std::make_shared<ReleaseFlags>();
  command->add_option("KEY", flags->key, "the key")->type_name("")->required();
  add_native_server(*command, flags->server);
  command->add_option("--cost", flags->cost, "permits to release; 1 to 1000000000")
      ->type_name("N")
      ->check(between(number_option("release", "--cost")))
      ->capture_default_str();
  command->callback([flags, &run] { run = [flags] { return release(*flags); }; });
}

}  // namespace sluice::cli
