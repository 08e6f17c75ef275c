#include "cli/quota_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <stdexcept>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "cli/native_server.hpp"
#include "policy/quota_text.hpp"
#include "text/duration.hpp"
#include "text/number.hpp"

namespace sluice::cli {
namespace {

using sluicegate::Ceiling;
using sluicegate::LimitKind;
using sluicegate::LimitState;
using text::Json;

[[noreturn]] void refuse(const std::string& limit, const std::string& why) {
  throw std::invalid_argument("--limit '" + limit + "': " + why +
                              "; it is NAME:METRIC:AMOUNT[/PERIOD][:KIND], as "
                              "tpm:tokens:30000/60s:sliding");
}

// 60s: 60000; nothing for any other text.
std::optional<int64_t> milliseconds_in(std::string_view text) {
  const auto period_ns = text::parse_duration(text);
  if (!period_ns || *period_ns % base::ns_per_ms != 0) return std::nullopt;
  return *period_ns / base::ns_per_ms;
}

void put_period(Json& json, std::string_view period, const std::string& limit) {
  if (const auto period_ms = milliseconds_in(period)) {
    json["period_ms"] = *period_ms;
    return;
  }
  const size_t at = period.find('@');
  const std::string_view unit = period.substr(0, at);
  if (unit != "hour" && unit != "day" && unit != "week" && unit != "month") {
    refuse(limit, "'" + std::string{period} + "' is not a period");
  }
  json["kind"] = "calendar";
  json["period"] = unit;
  if (at != period.npos) json["time_zone"] = period.substr(at + 1);
}

// The next word, up to `end`.
std::string_view take(std::string_view& rest, char end) {
  const size_t at = std::min(rest.find(end), rest.size());
  const std::string_view word = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return word;
}

// The words of a limit as the JSON that policy reads.
Json json_of_words(const std::string& limit) {
  std::string_view rest = limit;
  Json json{{"name", take(rest, ':')}, {"metric", take(rest, ':')}};
  std::string_view most = take(rest, ':');
  const std::string_view kind = rest;
  const std::string_view amount = take(most, '/');
  if (amount.empty()) refuse(limit, "there is no amount");
  if (const auto number = text::parse_whole<uint64_t>(amount)) {
    json["amount"] = *number;
  } else {
    json["amount"] = amount;
  }
  if (!most.empty()) put_period(json, most, limit);
  if (!kind.empty()) json["kind"] = kind;
  return json;
}

sluicegate::Limit client_limit(const api::Limit& from) {
  return {.name = from.name,
          .metric = static_cast<sluicegate::Metric>(from.metric),
          .kind = static_cast<LimitKind>(from.kind),
          .ceiling = static_cast<Ceiling>(from.ceiling),
          .amount = from.amount,
          .period_ms = static_cast<uint64_t>(from.period_ms),
          .unit = static_cast<sluicegate::CalendarUnit>(from.unit),
          .time_zone = from.time_zone,
          .count_cached = from.count_cached};
}

api::Limit server_limit(const sluicegate::Limit& from) {
  return {.name = from.name,
          .metric = static_cast<api::Metric>(from.metric),
          .kind = static_cast<api::LimitKind>(from.kind),
          .ceiling = static_cast<api::Ceiling>(from.ceiling),
          .amount = from.amount,
          .period_ms = static_cast<int64_t>(from.period_ms),
          .unit = static_cast<api::CalendarUnit>(from.unit),
          .time_zone = from.time_zone,
          .count_cached = from.count_cached};
}

api::Quota server_quota(const sluicegate::Quota& from) {
  api::Quota quota{.limits = {},
                   .refund_expired = from.refund_expired,
                   .overtakers_max = from.overtakers_max,
                   .profile = from.profile};
  for (const sluicegate::Limit& limit : from.limits) quota.limits.push_back(server_limit(limit));
  return quota;
}

void put_state(Json& json, const LimitState& state) {
  json["used"] = state.used;
  json["reserved"] = state.reserved;
  json["remaining"] = state.ceiling == Ceiling::unlimited ? Json(nullptr) : Json(state.remaining);
  json["reset_ms"] = state.reset_ms;
}

std::string amount_text(Ceiling ceiling, uint64_t amount) {
  return ceiling == Ceiling::number ? std::to_string(amount) : std::string{name(ceiling)};
}

std::string remaining_text(const LimitState& state) {
  return state.ceiling == Ceiling::unlimited ? "-" : std::to_string(state.remaining);
}

std::string set_example(const std::string& subject) {
  return fmt::format("sluicegate quota set {} --limit tpm:tokens:30000/60s", subject);
}

using Row = std::array<std::string, 8>;

Row row_of(const std::string& subject, const LimitState& state) {
  return {subject,
          state.name,
          std::string{name(state.metric)},
          amount_text(state.ceiling, state.amount),
          std::to_string(state.used),
          std::to_string(state.reserved),
          remaining_text(state),
          std::to_string(state.reset_ms)};
}

// Text to the left, numbers to the right.
std::string in_columns(const std::vector<Row>& rows) {
  constexpr size_t texts = 3;
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < texts ? fmt::format("{:<{}}", row[i], widths[i])
                        : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

sluicegate::Quota quota_of_json(std::string_view text) {
  const policy::ParsedQuota parsed = policy::parse_quota(text);
  if (!parsed.complaints.empty()) {
    std::string all = "the quota is not valid:";
    for (const std::string& complaint : parsed.complaints) all += "\n  " + complaint;
    throw std::invalid_argument(all);
  }
  sluicegate::Quota quota{.limits = {},
                          .refund_expired = parsed.quota.refund_expired,
                          .overtakers_max = parsed.quota.overtakers_max,
                          .profile = {}};
  for (const api::Limit& limit : parsed.quota.limits) quota.limits.push_back(client_limit(limit));
  return quota;
}

sluicegate::Quota quota_of_words(const std::vector<std::string>& limits) {
  Json json{{"limits", Json::array()}};
  for (const std::string& limit : limits) json["limits"].push_back(json_of_words(limit));
  return quota_of_json(text::one_line(json));
}

std::string limit_words(const sluicegate::Limit& limit) {
  std::string words = fmt::format("{}:{}:{}", printable(limit.name), name(limit.metric),
                                  amount_text(limit.ceiling, limit.amount));
  if (limit.kind == LimitKind::concurrency) return words;
  if (limit.kind != LimitKind::calendar) {
    return fmt::format("{}/{}:{}", words, text::duration_text(limit.period_ms), name(limit.kind));
  }
  return fmt::format("{}/{}@{}", words, name(limit.unit), printable(limit.time_zone));
}

uint64_t parse_reservation(std::string_view text) {
  const auto reservation = text::parse_hex_id(text);
  if (!reservation) {
    throw std::invalid_argument("'" + std::string{text} +
                                "' is not a reservation id: it is 16 hexadecimal digits, as "
                                "reserve prints them");
  }
  return *reservation;
}

void check_subjects(const std::vector<std::string>& names) {
  if (std::ranges::find(names, "") != names.end()) {
    throw std::invalid_argument("the name of a subject is empty");
  }
}

void check_reserved(const std::vector<std::string>& names) {
  if (names.size() > limits::call_subjects_max) {
    throw std::invalid_argument(fmt::format("{} subjects were given; at most {} share a call",
                                            names.size(), limits::call_subjects_max));
  }
  for (auto at = names.begin(); at != names.end(); ++at) {
    if (std::find(names.begin(), at, *at) == at) continue;
    throw std::invalid_argument(fmt::format("{} is given twice", printable(*at)));
  }
}

bool has_no_quota(const sluicegate::SubjectState& subject) noexcept {
  return subject.source == sluicegate::QuotaSource::none;
}

std::string no_quota_text(std::string_view subject) {
  const std::string shown = printable(subject);
  return fmt::format(
      "{} has no quota: nothing limits it, unless the server denies unknown subjects; to set one:\n"
      "  {}\n",
      shown, set_example(shown));
}

std::vector<std::string> unlimited_of(sluicegate::Client& client,
                                      std::span<const std::string_view> names) {
  std::vector<std::string> unlimited;
  try {
    for (const sluicegate::SubjectState& subject : client.usage(names)) {
      if (subject.quota.limits.empty()) unlimited.push_back(subject.name);
    }
  } catch (const std::exception&) {
    return {};
  }
  return unlimited;
}

std::string no_limits_text(const std::vector<std::string>& subjects) {
  std::string text;
  for (const std::string& subject : subjects) {
    const std::string shown = printable(subject);
    text += fmt::format("nothing limits {}; to limit it: {}\n", shown, set_example(shown));
  }
  return text;
}

Json quota_json(const sluicegate::Quota& quota) {
  return policy::quota_json(server_quota(quota));
}

Json subject_json(const sluicegate::SubjectState& subject) {
  Json json{{"name", subject.name}, {"source", name(subject.source)}};
  if (!subject.quota.profile.empty()) json["profile"] = subject.quota.profile;
  json["limits"] = Json::array();
  for (const sluicegate::Limit& limit : subject.quota.limits) {
    Json shown = policy::limit_json(server_limit(limit));
    const auto state =
        std::find_if(subject.limits.begin(), subject.limits.end(),
                     [&](const LimitState& each) { return each.name == limit.name; });
    if (state != subject.limits.end()) put_state(shown, *state);
    json["limits"].push_back(std::move(shown));
  }
  json["expired"] = subject.quota.refund_expired ? "refund" : "keep";
  json["overtakers"] = subject.quota.overtakers_max;
  json["open_reservations"] = subject.open_reservations;
  json["waiting"] = subject.waiting;
  return json;
}

Json outcome_json(const sluicegate::QuotaOutcome& outcome, std::span<const std::string> names) {
  Json json{{"code", name(outcome.code)}, {"title", reason(outcome.code)}};
  if (outcome.reservation != 0) json["reservation"] = text::hex_id(outcome.reservation);
  if (outcome.admitted()) return json;
  json["retryable"] = may_retry(outcome.code);
  const bool can_retry = may_retry(outcome.code) && outcome.retry_after_ms >= 0;
  json["retry_after_ms"] = can_retry ? Json(outcome.retry_after_ms) : Json(nullptr);
  json["violated"] = Json::array();
  for (const LimitState& state : outcome.limits) {
    const auto ceiling = static_cast<api::Ceiling>(state.ceiling);
    Json violated{{"name", state.name},
                  {"metric", name(state.metric)},
                  {"amount", policy::amount_json(ceiling, state.amount)}};
    if (state.subject < names.size()) violated["subject"] = names[state.subject];
    put_state(violated, state);
    json["violated"].push_back(std::move(violated));
  }
  return json;
}

std::string subjects_text(const std::vector<sluicegate::SubjectState>& subjects) {
  std::vector<Row> rows{
      {"SUBJECT", "LIMIT", "METRIC", "AMOUNT", "USED", "RESERVED", "REMAINING", "RESET ms"}};
  for (const sluicegate::SubjectState& subject : subjects) {
    const std::string shown = printable(subject.name);
    for (const LimitState& state : subject.limits) rows.push_back(row_of(shown, state));
    const char* none = has_no_quota(subject) ? "no quota" : "no limits";
    if (subject.limits.empty()) rows.push_back({shown, none, "", "", "", "", "", ""});
  }
  return in_columns(rows);
}

std::string denial_text(const sluicegate::QuotaOutcome& outcome,
                        std::span<const std::string> names) {
  std::string text = fmt::format("{}: {}", name(outcome.code), reason(outcome.code));
  if (may_retry(outcome.code) && outcome.retry_after_ms > 0) {
    text += fmt::format("; again in {} ms", outcome.retry_after_ms);
  }
  text += "\n";
  for (const LimitState& state : outcome.limits) {
    const bool is_ambiguous = names.size() > 1 && state.subject < names.size();
    text += is_ambiguous ? fmt::format("  {} ", printable(names[state.subject])) : "  ";
    text += fmt::format("{}: {} of {} used, {} of it reserved, {} remaining\n",
                        printable(state.name), state.used, amount_text(state.ceiling, state.amount),
                        state.reserved, remaining_text(state));
  }
  return text;
}

}  // namespace sluice::cli
