#include "cli/reserve_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/between.hpp"
#include "cli/native_server.hpp"
#include "cli/quota_words.hpp"
#include "sluicegate/client.hpp"
#include "text/json.hpp"
#include "text/number.hpp"

namespace sluice::cli {
namespace {

constexpr const char* reserve_description =
    R"(Reserves the amounts that a call may need from its subjects' quotas, and prints the
reservation's id.

  sluicegate reserve gpt-4o --input-tokens 900 --max-output-tokens 500
  sluicegate reserve gpt-4o acme --wait --wait-limit-ms 2000
  sluicegate reserve gpu --requests 0 --lifetime-ms 600000 --owner "job 7"

Several subjects are admitted together, or none. `sluicegate settle ID` reports what was used.

Exit code: 0 when it was admitted, 1 when not, 2 when there was no answer, the
request is wrong, or the server shuts down.
)";

struct ReserveFlags {
  std::vector<std::string> names;
  NativeServer server;
  sluicegate::ReserveOptions options;
  std::string id;
  std::string owner;
  std::optional<uint64_t> max_output_tokens;
  bool json = false;
};

void print_admitted(const sluicegate::QuotaOutcome& outcome,
                    const std::vector<std::string>& unlimited) {
  const bool has_id = outcome.reservation != 0;  // none where there is nothing to be settled
  std::puts(has_id ? text::hex_id(outcome.reservation).c_str() : "unlimited");
  std::fputs(no_limits_text(unlimited).c_str(), stderr);
}

int reserve(const ReserveFlags& flags) {
  check_subjects(flags.names);
  check_reserved(flags.names);
  sluicegate::Client client = client_of(flags.server, "reserve");
  sluicegate::ReserveOptions options = flags.options;
  options.id = flags.id;
  options.owner = flags.owner;
  options.max_output_tokens = flags.max_output_tokens;
  options.wants_violated = true;
  const std::vector<std::string_view> names{flags.names.begin(), flags.names.end()};
  sluicegate::Reservation call = client.reserve(names, options);
  call.detach();  // any holder of the id settles it
  const sluicegate::QuotaOutcome& outcome = call.outcome();
  const auto unlimited =
      outcome.admitted() ? unlimited_of(client, names) : std::vector<std::string>{};
  if (flags.json) {
    text::Json json = outcome_json(outcome, flags.names);
    if (outcome.admitted()) json["without_limits"] = unlimited;
    std::puts(text::one_line(json).c_str());
  } else if (outcome.admitted()) {
    print_admitted(outcome, unlimited);
  } else {
    std::fputs(denial_text(outcome, flags.names).c_str(), stderr);
  }
  return outcome.admitted() ? 0 : 1;
}

}  // namespace

void add_reserve_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("reserve", reserve_description);
  const auto flags = std::make_shared<ReserveFlags>();
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    return command->add_option(name, value, text)->type_name(type);
  };
  add("NAME", flags->names, "the subjects; 1 to 8", "")->required();
  add_server_to_wait_for(*command, flags->server);
  add("--requests", flags->options.requests, "requests to reserve", "N")
      ->check(between(number_option("reserve", "--requests")))
      ->capture_default_str();
  add("--input-tokens", flags->options.input_tokens, "input tokens to reserve", "N")
      ->check(between(number_option("reserve", "--input-tokens")))
      ->capture_default_str();
  add("--max-output-tokens", flags->max_output_tokens,
      "the most there may be; left out: the server's default", "N")
      ->check(between(number_option("reserve", "--max-output-tokens")));
  add("--cost", flags->options.cost, "cost in millionths of the currency unit", "N")
      ->check(between(number_option("reserve", "--cost")))
      ->capture_default_str();
  auto* wait =
      command->add_flag("--wait", flags->options.may_wait, "wait in the queue when denied");
  add("--wait-limit-ms", flags->options.wait_limit_ms, "wait no longer than that; 0: no limit", "N")
      ->needs(wait)
      ->check(between(number_option("reserve", "--wait-limit-ms")))
      ->capture_default_str();
  add("--lifetime-ms", flags->options.lifetime_ms,
      "from its admission, after any wait, until it ends by itself; 0: the server's default", "N")
      ->check(between(number_option("reserve", "--lifetime-ms")))
      ->capture_default_str();
  add("--id", flags->id, "of your choosing: the same again gets the same reservation", "TEXT");
  add("--owner", flags->owner, "the holder's name, for people to read", "TEXT");
  command->add_flag("--json", flags->json, "the answer as a line of JSON");
  command->callback([flags, &run] { run = [flags] { return reserve(*flags); }; });
}

}  // namespace sluice::cli
