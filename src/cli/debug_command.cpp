#include "cli/debug_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "cli/between.hpp"
#include "cli/native_server.hpp"
#include "sluicegate/error.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

using sluicegate::InspectedKey;

constexpr const char* debug_description =
    R"(Shows the state of a key, or of all live keys, on a running server, a page at a time. It
neither makes a key nor keeps it alive.

  sluicegate debug user-7
  sluicegate debug --limit 20
  sluicegate debug --json | jq -r 'select(.waiting > 0) | .key'

Of several nodes, the one that has KEY is asked, whichever --address leads to.

Without KEY it lists all live keys of one node in table order; a key that stays live meanwhile
appears exactly once. A key with blanks, quotes or bytes that do not print is shown in quotes, with
escapes; --json has a line for each key, and U+FFFD for bytes that are no UTF-8.

Exit code: 0 when it was shown (without KEY: also when there are none), 1 when the key is not
live, 2 when there was no answer.
)";

constexpr NumberOption debug_limit = number_option("debug", "--limit");

struct DebugFlags {
  std::optional<std::string> key;  // none: all keys
  NativeServer server;
  uint32_t limit{debug_limit.max};
  bool json = false;
};

// The key comes last: only its width is not known.
void print_keys_header() {
  std::puts("  APPROVED       LIMIT    DENIED   WAITING     QUEUE  WINDOW ms   LEFT ms  KEY");
}

void print_row(const InspectedKey& key) {
  std::puts(fmt::format("{:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>9}  {:>8}  {}", key.approved,
                        key.max_requests, key.denied, key.waiting, key.max_requests_in_queue,
                        key.window_ms, key.reset_ms, printable(key.key))
                .c_str());
}

void print_json(const InspectedKey& key) {
  const text::Json line{{"key", key.key},
                        {"approved", key.approved},
                        {"maxRequests", key.max_requests},
                        {"denied", key.denied},
                        {"waiting", key.waiting},
                        {"maxRequestsInQueue", key.max_requests_in_queue},
                        {"windowMillis", key.window_ms},
                        {"resetMillis", key.reset_ms}};
  std::puts(text::one_line(line).c_str());
}

int show(const InspectedKey& key, const DebugFlags& flags) {
  if (!flags.json) print_keys_header();
  flags.json ? print_json(key) : print_row(key);
  return 0;
}

int show_key(sluicegate::Connection& connection, const DebugFlags& flags) {
  check_key_size(connection, *flags.key);
  if (const auto key = connection.inspect(*flags.key)) return show(*key, flags);
  const bool may_have_nodes = (connection.welcome().features & sluicegate::feature_topology) != 0;
  // Another one may have it.
  if (const auto state = may_have_nodes ? client_of_nodes(flags.server, "debug").inspect(*flags.key)
                                        : std::nullopt) {
    return show({.key = *flags.key,
                 .window_ms = state->window_ms,
                 .reset_ms = state->reset_ms,
                 .max_requests = state->max_requests,
                 .max_requests_in_queue = state->max_requests_in_queue,
                 .approved = state->approved,
                 .denied = state->denied,
                 .waiting = state->waiting},
                flags);
  }
  std::fprintf(stderr, "%s is not live\n", printable(*flags.key).c_str());
  return 1;
}

sluicegate::Inspected next_page(sluicegate::Connection& connection, const DebugFlags& flags,
                                uint64_t cursor, uint32_t keys_max) {
  connection.send(sluicegate::Inspect{.cursor = cursor, .limit = keys_max});
  // No other request is outstanding; frames that the server sends unasked (GoAway) are skipped.
  for (;;) {
    auto answer = connection.receive(std::chrono::milliseconds{flags.server.timeout_ms});
    if (!answer) throw sluicegate::TimedOut("the server did not answer in time");
    if (auto* page = std::get_if<sluicegate::Inspected>(&*answer)) return std::move(*page);
    if (const auto* refusal = std::get_if<sluicegate::Refusal>(&*answer)) {
      throw sluicegate::Refused(refusal->code, std::string{refusal->text});
    }
  }
}

// Shows --limit keys, in pages of the server's choice: it may give fewer than requested.
int show_all(sluicegate::Connection& connection, const DebugFlags& flags) {
  if (!flags.json) print_keys_header();
  uint32_t left = flags.limit;
  uint64_t cursor = 0;
  do {
    const sluicegate::Inspected page = next_page(connection, flags, cursor, left);
    const size_t shown = std::min<size_t>(left, page.keys.size());
    for (size_t i = 0; i < shown; ++i) {
      flags.json ? print_json(page.keys[i]) : print_row(page.keys[i]);
    }
    left -= static_cast<uint32_t>(shown);
    cursor = page.cursor;
  } while (cursor != 0 && left > 0);
  if (cursor != 0 && !flags.json) std::fputs("There may be more: raise --limit.\n", stderr);
  return 0;
}

int debug(const DebugFlags& flags) {
  if (flags.key) check_key(*flags.key);
  const auto connection = connect(flags.server, "debug");
  return flags.key ? show_key(*connection, flags) : show_all(*connection, flags);
}

}  // namespace

void add_debug_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("debug", debug_description);
  const auto flags = std::make_shared<DebugFlags>();
  command->add_option("KEY", flags->key, "the only key to show")->type_name("");
  add_native_server(*command, flags->server);
  command->add_option("--limit", flags->limit, "show no more keys; 1 to 1000000000")
      ->type_name("N")
      ->check(between(debug_limit));
  command->add_flag("--json", flags->json, "a line of JSON for each key");
  command->callback([flags, &run] { run = [flags] { return debug(*flags); }; });
}

}  // namespace sluice::cli
