#include "cli/settle_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/native_server.hpp"
#include "cli/quota_words.hpp"
#include "cli/used_flags.hpp"
#include "sluicegate/client.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

constexpr const char* settle_description =
    R"(Replaces a reservation's charge by the amounts that the call used. An amount that is not
given stays as it was reserved.

  sluicegate settle 00a1b2c3d4e5f607 --input-tokens 880 --output-tokens 312
  sluicegate settle 00a1b2c3d4e5f607 --cancel

Exit code: 0 when it is settled (a repeat too), 1 when it is not, 2 when there was no answer.
)";

struct SettleFlags {
  std::string reservation;
  NativeServer server;
  sluicegate::Used used;
  bool cancel = false;
  bool keep_requests = false;
  bool json = false;
};

int settle(const SettleFlags& flags) {
  const uint64_t reservation = parse_reservation(flags.reservation);
  sluicegate::Client client = client_of(flags.server, "settle");
  const sluicegate::QuotaOutcome outcome =
      flags.cancel ? client.cancel_reservation(reservation, flags.keep_requests)
                   : client.settle(reservation, flags.used);
  const bool done = outcome.code == sluicegate::QuotaCode::ok;
  if (flags.json) {
    std::puts(text::one_line(outcome_json(outcome)).c_str());
  } else if (done) {
    std::puts(flags.cancel ? "cancelled" : "settled");
  } else {
    std::fputs(denial_text(outcome).c_str(), stderr);
  }
  return done ? 0 : 1;
}

}  // namespace

void add_settle_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("settle", settle_description);
  const auto flags = std::make_shared<SettleFlags>();
  auto* cancel = command->add_flag("--cancel", flags->cancel, "refund all of it instead");
  command->add_option("ID", flags->reservation, "of the reservation, as reserve prints it")
      ->type_name("")
      ->required();
  add_native_server(*command, flags->server);
  for (CLI::Option* const amount : add_used_flags(*command, flags->used)) amount->excludes(cancel);
  command
      ->add_flag("--keep-requests", flags->keep_requests,
                 "with --cancel: the requests were made all the same")
      ->needs(cancel);
  command->add_flag("--json", flags->json, "the answer as a line of JSON");
  command->callback([flags, &run] { run = [flags] { return settle(*flags); }; });
}

}  // namespace sluice::cli
