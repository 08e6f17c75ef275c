#include "cli/consume_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/between.hpp"
#include "cli/native_server.hpp"
#include "cli/quota_words.hpp"
#include "cli/used_flags.hpp"
#include "sluicegate/client.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

constexpr const char* consume_description =
    R"(Charges the amounts that a call uses to its subjects' quotas, if they fit. Nothing is
reserved, and nothing has to be settled.

  sluicegate consume gpt-4o acme --input-tokens 880 --output-tokens 312
  sluicegate consume gpt-4o acme --input-tokens 880 --wait --wait-limit-ms 2000
  sluicegate consume acme --cost 1200 --id "job 7"

Several subjects are charged together, or none. Amounts that are not given are 0, --requests is 1.

Exit code: 0 when it was charged, 1 when not, 2 when there was no answer, the
request is wrong, or the server shuts down.
)";

struct ConsumeFlags {
  std::vector<std::string> names;
  NativeServer server;
  sluicegate::Used used;
  sluicegate::ConsumeOptions options{.wants_violated = true};
  std::string id;
  bool json = false;
};

int consume(const ConsumeFlags& flags) {
  check_subjects(flags.names);
  check_reserved(flags.names);
  sluicegate::Client client = client_of(flags.server, "consume");
  sluicegate::ConsumeOptions options = flags.options;
  options.id = flags.id;
  const std::vector<std::string_view> names{flags.names.begin(), flags.names.end()};
  const sluicegate::QuotaOutcome outcome = client.consume(names, flags.used, options);
  const std::vector<std::string> unlimited =
      outcome.admitted() ? unlimited_of(client, names) : std::vector<std::string>{};
  if (flags.json) {
    text::Json json = outcome_json(outcome, flags.names);
    if (outcome.admitted()) json["without_limits"] = unlimited;
    std::puts(text::one_line(json).c_str());
  } else if (outcome.admitted()) {
    std::puts("charged");
    std::fputs(no_limits_text(unlimited).c_str(), stderr);
  } else {
    std::fputs(denial_text(outcome, flags.names).c_str(), stderr);
  }
  return outcome.admitted() ? 0 : 1;
}

}  // namespace

void add_consume_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("consume", consume_description);
  const auto flags = std::make_shared<ConsumeFlags>();
  command->add_option("NAME", flags->names, "the subjects; 1 to 8")->type_name("")->required();
  add_server_to_wait_for(*command, flags->server);
  add_used_flags(*command, flags->used);
  auto* wait =
      command->add_flag("--wait", flags->options.may_wait, "wait in the queue when denied");
  command
      ->add_option("--wait-limit-ms", flags->options.wait_limit_ms,
                   "wait no longer than that; 0: no limit")
      ->type_name("N")
      ->needs(wait)
      ->check(between(number_option("consume", "--wait-limit-ms")))
      ->capture_default_str();
  command->add_option("--id", flags->id, "of your choosing: the same call again is charged once")
      ->type_name("TEXT");
  command->add_flag("--json", flags->json, "the answer as a line of JSON");
  command->callback([flags, &run] { run = [flags] { return consume(*flags); }; });
}

}  // namespace sluice::cli
