#include "cli/acquire_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/between.hpp"
#include "cli/native_server.hpp"
#include "cli/verdict_words.hpp"

namespace sluice::cli {
namespace {

using sluicegate::Verdict;

constexpr const char* acquire_description =
    R"(Asks a running server for permits of a key, and prints its answers.

  sluicegate acquire user-7
  sluicegate acquire user-7 --cost 5 --count 3
  sluicegate acquire user-7 --wait --wait-limit-ms 2000 && echo go

Exit code: 0 when all was approved, 1 when not (a line on stderr has the cause), 2 when there was
no answer, the request is wrong, or the server shuts down.
)";

struct AcquireFlags {
  std::string key;
  NativeServer server;
  uint32_t cost = 1;
  uint32_t count = 1;
  bool wait = false;
  bool route = false;
  uint32_t wait_limit_ms = 0;
  std::optional<uint32_t> max_requests;
  std::optional<uint32_t> max_requests_in_queue;
  std::optional<uint64_t> window_ms;
};

// The details behind the verdict; all columns were requested.
std::string details_text(Verdict verdict, const sluicegate::Details& details, size_t index) {
  const auto value = [&](const auto& column) {
    return column.empty() ? uint64_t{0} : uint64_t{column[index]};
  };
  if (value(details.reset_ms) == 0) {  // no window has begun
    if (verdict != Verdict::approved || value(details.limit) == 0) return "";
    return fmt::format("  {} of {} remaining (window {} ms)", value(details.remaining),
                       value(details.limit), value(details.window_ms));
  }
  std::string text =
      fmt::format("  {} of {} remaining for {} ms (window {} ms)", value(details.remaining),
                  value(details.limit), value(details.reset_ms), value(details.window_ms));
  if (value(details.position) > 0) {
    text += fmt::format(", position {}", value(details.position));
  }
  if (value(details.retry_after_ms) > 0) {
    text += fmt::format(", retry in {} ms", value(details.retry_after_ms));
  }
  if (value(details.request_id) > 0) {
    text += fmt::format(", request id {}", value(details.request_id));
  }
  return text;
}

void print_verdict(Verdict verdict, const sluicegate::Details& details, size_t index) {
  std::puts((std::string{name(verdict)} + details_text(verdict, details, index)).c_str());
  std::fflush(stdout);  // shows `queued` before the wait ends
}

// On stderr, so that the lines of stdout stay one for each answer.
void print_sentence(Verdict verdict, const AcquireFlags& flags) {
  std::fprintf(stderr, "%s: %s\n", std::string{name(verdict)}.c_str(),
               verdict_sentence(verdict, flags.wait).c_str());
}

// Prints the answers as they arrive, until every entry has its outcome. Returns the exit code.
int print_answers(sluicegate::Connection& connection, const AcquireFlags& flags) {
  const std::chrono::milliseconds answer_time{flags.server.timeout_ms};
  std::set<Verdict> refusals;
  size_t waiting = 0;
  const auto print_all = [&](const auto& answer) {
    for (size_t i = 0; i < answer.verdicts.size(); ++i) {
      print_verdict(answer.verdicts[i], answer.details, i);
      if (answer.verdicts[i] == Verdict::queued) {
        ++waiting;
      } else if (answer.verdicts[i] != Verdict::approved) {
        if (refusals.insert(answer.verdicts[i]).second) print_sentence(answer.verdicts[i], flags);
      }
    }
  };
  do {
    const auto timeout = waiting > 0 ? std::chrono::hours{24} : answer_time;
    const auto answer = connection.receive(timeout);
    if (!answer) throw sluicegate::TimedOut("the server did not answer in time");
    if (const auto* verdicts = std::get_if<sluicegate::Verdicts>(&*answer)) {
      print_all(*verdicts);
    } else if (const auto* granted = std::get_if<sluicegate::Granted>(&*answer)) {
      waiting -= std::min(waiting, granted->entries.size());
      print_all(*granted);
    } else if (const auto* refusal = std::get_if<sluicegate::Refusal>(&*answer)) {
      throw sluicegate::Refused(refusal->code, std::string{refusal->text});
    }
  } while (connection.outstanding_frames() > 0 || waiting > 0);
  int code = 0;
  for (const Verdict verdict : refusals) code = std::max(code, exit_code(verdict));
  return code;
}

// Of the key, on the server that answers.
std::unique_ptr<sluicegate::Connection> connect_to_shard(const AcquireFlags& flags) {
  return ask_first(flags.server, [&](const sluicegate::Address& server) {
    return sluicegate::connect_to_owner(server.host, server.port, flags.key,
                                        connect_options(flags.server, "acquire"));
  });
}

int acquire(const AcquireFlags& flags) {
  check_key(flags.key);
  const auto connection = flags.route ? connect_to_shard(flags) : connect(flags.server, "acquire");
  check_key_size(*connection, flags.key);
  // A column is left out where the flag is: an override stays with the key.
  const auto column = [&]<typename T>(std::optional<T> value) {
    return value ? std::vector<T>(flags.count, *value) : std::vector<T>{};
  };
  const std::vector<std::string_view> keys(flags.count, flags.key);
  const auto costs = column(std::optional{flags.cost});
  const auto max_requests = column(flags.max_requests);
  const auto max_requests_in_queue = column(flags.max_requests_in_queue);
  const auto window_ms = column(flags.window_ms);
  connection->send(sluicegate::Acquire{.keys = keys,
                                       .costs = costs,
                                       .max_requests = max_requests,
                                       .max_requests_in_queue = max_requests_in_queue,
                                       .window_ms = window_ms,
                                       .all_may_wait = flags.wait,
                                       .wait_limit_ms = flags.wait_limit_ms,
                                       .details = sluicegate::detail::all});
  return print_answers(*connection, flags);
}

}  // namespace

void add_acquire_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("acquire", acquire_description);
  const auto flags = std::make_shared<AcquireFlags>();
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    return command->add_option(name, value, text)->type_name(type);
  };
  add("KEY", flags->key, "the key", "")->required();
  add_native_server(*command, flags->server);
  add("--cost", flags->cost,
      "permits to ask for at once; 0 takes none\nand shows the key; 0 to 1000000000", "N")
      ->check(between(number_option("acquire", "--cost")))
      ->capture_default_str();
  add("--count", flags->count, "how often to ask, in one frame; 1 to 4096", "N")
      ->check(between(number_option("acquire", "--count")))
      ->capture_default_str();
  auto* wait = command->add_flag("--wait", flags->wait, "wait in the key's queue when denied");
  add("--wait-limit-ms", flags->wait_limit_ms, "wait no longer than that; 0: no limit", "N")
      ->needs(wait)
      ->check(between(number_option("acquire", "--wait-limit-ms")))
      ->capture_default_str();
  add("--max-requests", flags->max_requests,
      "the key's own limit from now on, if the server allows that", "N")
      ->check(between(number_option("acquire", "--max-requests")));
  add("--max-requests-in-queue", flags->max_requests_in_queue,
      "the key's own queue length from now on, if the server allows that", "N")
      ->check(between(number_option("acquire", "--max-requests-in-queue")));
  add("--window-millis", flags->window_ms,
      "the key's own window from now on, if the server allows that", "N")
      ->check(between(number_option("acquire", "--window-millis")));
  command->add_flag(
      "--route", flags->route,
      "over a connection to the shard that owns the key:\nno messages between shards");
  command->callback([flags, &run] { run = [flags] { return acquire(*flags); }; });
}

}  // namespace sluice::cli
