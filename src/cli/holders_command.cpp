#include "cli/holders_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/limits.hpp"
#include "cli/between.hpp"
#include "cli/http_get.hpp"
#include "cli/native_server.hpp"
#include "cli/quota_words.hpp"
#include "cli/rest_server.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

using std::chrono::milliseconds;
using text::Json;

constexpr const char* more_text =
    R"(It asks the REST port (GET /v1/reservations), for all subjects or for one.

  sluicegate quota holders
  sluicegate quota holders gpt-4o --address rates.internal:8081
  sluicegate quota holders gpt-4o --rest-address rates.internal:9080
  sluicegate quota holders gpt-4o --json | jq -r 'select(.held_ms > 60000) | .reservation'

OWNER is what --owner gave to reserve. Names with blanks, quotes or bytes that do not print are
shown in quotes, with escapes; --json has a line for each reservation, as REST has it.

Exit code: 0 when it was shown, also when there are no reservations; 1 when the subject has no
quota, and no reservations; 2 when there was no answer.)";

constexpr NumberOption holders_limit = number_option("holders", "--limit");

struct HoldersFlags {
  std::optional<std::string> name;  // none: all subjects
  RestServer server;
  std::string address;  // of the REST port
  uint32_t limit{holders_limit.max};
  bool json = false;
};

// Any bytes as the value of a query's field.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string target_of(const HoldersFlags& flags, const std::string& cursor, uint32_t rows_max) {
  std::string target = fmt::format("/v1/reservations?limit={}", rows_max);
  if (flags.name) target += "&subject=" + escaped(*flags.name);
  if (!cursor.empty()) target += "&cursor=" + cursor;
  return target;
}

// Owner and subjects come last: only their width is not known.
void print_holders_header() {
  std::puts(
      "RESERVATION       REQUESTS      INPUT     OUTPUT       COST    HELD ms  EXPIRES ms  BOUND  "
      "OWNER             SUBJECTS");
}

void print_row(const Json& row) {
  std::string subjects;
  for (const Json& subject : row.at("subjects")) {
    if (!subjects.empty()) subjects += ",";
    subjects += printable(subject.get<std::string>());
  }
  // Of other nodes, or too long.
  if (const auto left_out = row.find("subjects_left_out"); left_out != row.end()) {
    subjects += fmt::format("{}({} more)", subjects.empty() ? "" : ",", left_out->get<uint64_t>());
  }
  const Json& owner = row.at("owner");
  const auto number = [&row](const char* name) { return row.at(name).get<uint64_t>(); };
  std::puts(fmt::format("{:16}  {:>8} {:>10} {:>10} {:>10} {:>10} {:>11}  {:5}  {:16}  {}",
                        row.at("reservation").get<std::string>(), number("requests"),
                        number("input_tokens"), number("output_tokens"), number("cost"),
                        number("held_ms"), number("expires_in_ms"),
                        row.at("connection_bound").get<bool>() ? "yes" : "no",
                        owner.is_null() ? "-" : printable(owner.get<std::string>()),
                        subjects.empty() ? "-" : subjects)
                .c_str());
}

HttpGet request_of(const HoldersFlags& flags, std::string target) {
  return {.address = flags.address,
          .target = std::move(target),
          .timeout = milliseconds{flags.server.timeout_ms}};
}

Json next_page(const HoldersFlags& flags, const std::string& cursor, uint32_t rows_max) {
  const HttpGet request = request_of(flags, target_of(flags, cursor, rows_max));
  text::ParsedJson page = text::parse_json(http_get(request, [] { return true; }));
  if (page.complaint.empty()) return std::move(page.value);
  throw std::runtime_error(request.address + ": the answer is not JSON");
}

// For a list without rows: whether it is empty because the name is not the quota's.
int code_of_none(const HoldersFlags& flags) {
  if (!flags.name) return 0;
  const HttpGet request = request_of(flags, "/v1/subjects/" + escaped(*flags.name));
  if (http_ask(request, [] { return true; }).status != 404) return 0;
  std::fputs(no_quota_text(*flags.name).c_str(), stderr);
  return 1;
}

int list_holders(const HoldersFlags& flags) {
  if (flags.name) check_subjects({*flags.name});
  uint32_t left = flags.limit;
  std::string cursor;
  do {
    const Json page = next_page(flags, cursor, std::min(left, limits::subjects_page_max));
    const Json& rows = page.at("reservations");
    if (!flags.json && cursor.empty()) print_holders_header();
    for (const Json& row : rows) {
      if (flags.json) {
        std::puts(text::one_line(row).c_str());
      } else {
        print_row(row);
      }
      --left;
    }
    const Json& next = page.at("cursor");
    cursor = next.is_null() ? "" : next.get<std::string>();
  } while (!cursor.empty() && left > 0);
  if (!cursor.empty() && !flags.json) std::fputs("There may be more: raise --limit.\n", stderr);
  return left == flags.limit ? code_of_none(flags) : 0;
}

int holders(const HoldersFlags& flags) {
  try {
    return list_holders(flags);
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        flags.address + ": the body is not an answer to GET /v1/reservations: " + error.what());
  }
}

}  // namespace

void add_holders_command(CLI::App& quota, Run& run) {
  CLI::App* command =
      quota.add_subcommand("holders", "Shows the open reservations and their holders.");
  command->footer(more_text);
  const auto flags = std::make_shared<HoldersFlags>();
  command->add_option("NAME", flags->name, "of this subject only")->type_name("");
  add_rest_server(*command, flags->server, "--rest-address");
  command->add_option("--limit", flags->limit, "show no more reservations; 1 to 1000000000")
      ->type_name("N")
      ->check(between(holders_limit));
  command->add_flag("--json", flags->json, "a line of JSON for each reservation");
  command->callback([flags, &run] {
    run = [flags] {
      flags->address = rest_address(flags->server);
      return holders(*flags);
    };
  });
}

}  // namespace sluice::cli
