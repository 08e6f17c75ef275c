#include <algorithm>
#include <array>
#include <chrono>

#include "base/time.hpp"
#include "text/number.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::LimitReport;
using api::Metric;

constexpr size_t items_max = 16;              // of a header: the tightest ones
constexpr size_t item_subject_bytes = 64;     // of a subject's name in an item
constexpr size_t typical_header_bytes = 256;  // room for a few items without reallocation
constexpr uint64_t item_number_max = 999'999'999'999'999;  // RFC 8941: fifteen digits

bool is_limiting(const ReportedLimit& limit) {
  return limit.report->ceiling != api::Ceiling::unlimited;
}

uint64_t ceiling_of(const LimitReport& limit) {
  return limit.ceiling == api::Ceiling::block ? 0 : limit.amount;
}

uint64_t remaining_of(const LimitReport& limit) {
  return limit.ceiling == api::Ceiling::block ? 0 : limit.remaining;
}

// Whether only `one` denies the call; else, whether it has less remaining, or as much and a later
// reset. A limit that denies a large call may have more remaining than others.
bool is_tighter(const ReportedLimit& one, const ReportedLimit& other) {
  if (one.report->violated != other.report->violated) return one.report->violated;
  const uint64_t left = remaining_of(*one.report);
  const uint64_t other_left = remaining_of(*other.report);
  return left != other_left ? left < other_left : one.report->reset_ms > other.report->reset_ms;
}

// --- RateLimit and RateLimit-Policy --------------------------------------------------------

// A quoted string of RFC 8941 holds printable ASCII only.
void append_plain(std::string& out, std::string_view text) {
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 0x20 && c < 0x7F ? c : '?';
  }
}

std::string item_name(const ReportedLimit& limit, bool with_subject) {
  std::string name = "\"";
  if (with_subject) {
    append_plain(name, limit.subject.substr(0, item_subject_bytes));
    name += '/';
  }
  append_plain(name, limit.report->name_text());
  return name + '"';
}

void append_number(std::string& out, std::string_view name, uint64_t value) {
  text::DigitBuffer buffer;
  out.append(name).append(text::digits(std::min(value, item_number_max), buffer));
}

void append_seconds(std::string& out, std::string_view name, int64_t ms) {
  append_number(out, name, static_cast<uint64_t>(base::ceil_seconds(ms)));
}

// A concurrency limit has no time, only its amount and what remains.
void append_items(const ReportedLimit& limit, bool with_subject, std::string& rate,
                  std::string& policy) {
  const LimitReport& report = *limit.report;
  const bool has_time = report.kind != api::LimitKind::concurrency;
  const std::string name = item_name(limit, with_subject);
  const std::string_view separator = rate.back() == ' ' ? "" : ", ";
  append_number(rate.append(separator).append(name), ";r=", remaining_of(report));
  if (has_time) append_seconds(rate, ";t=", report.reset_ms);
  append_number(policy.append(separator).append(name), ";q=", ceiling_of(report));
  if (has_time) append_seconds(policy, ";w=", report.period_ms);
}

void append_rate_limit(std::vector<ReportedLimit> limits, std::string& headers) {
  std::erase_if(limits, [](const ReportedLimit& limit) { return !is_limiting(limit); });
  if (limits.empty()) return;
  const bool with_subject = std::any_of(limits.begin(), limits.end(), [&](const auto& limit) {
    return limit.subject != limits[0].subject;
  });
  if (limits.size() > items_max) {
    std::stable_sort(limits.begin(), limits.end(), is_tighter);
    limits.resize(items_max);
  }
  std::string rate = "RateLimit: ";
  std::string policy = "\r\nRateLimit-Policy: ";
  rate.reserve(typical_header_bytes);
  policy.reserve(typical_header_bytes);
  for (const ReportedLimit& limit : limits) append_items(limit, with_subject, rate, policy);
  headers.append(rate).append(policy).append("\r\n");
}

// --- Headers in the style of providers -----------------------------------------------------

struct StyledMetric {
  Metric metric;
  std::string_view name;
};

constexpr std::array<StyledMetric, 2> openai_metrics{
    {{Metric::requests, "requests"}, {Metric::tokens, "tokens"}}};
constexpr std::array<StyledMetric, 4> anthropic_metrics{{{Metric::requests, "requests"},
                                                         {Metric::tokens, "tokens"},
                                                         {Metric::input_tokens, "input-tokens"},
                                                         {Metric::output_tokens, "output-tokens"}}};

// The tightest limit of a metric; null: none limits it.
const LimitReport* tightest(const std::vector<ReportedLimit>& limits, Metric metric) {
  const ReportedLimit* found = nullptr;
  for (const ReportedLimit& limit : limits) {
    if (limit.report->metric != metric || !is_limiting(limit)) continue;
    if (found == nullptr || is_tighter(limit, *found)) found = &limit;
  }
  return found == nullptr ? nullptr : found->report;
}

void append_line(std::string& headers, const std::string& name, const std::string& value) {
  headers.append(name).append(": ").append(value).append("\r\n");
}

void append_openai(const std::vector<ReportedLimit>& limits, std::string& headers) {
  for (const auto& [metric, name] : openai_metrics) {
    const LimitReport* limit = tightest(limits, metric);
    if (limit == nullptr) continue;
    const std::string end(name);
    append_line(headers, "x-ratelimit-limit-" + end, std::to_string(ceiling_of(*limit)));
    append_line(headers, "x-ratelimit-remaining-" + end, std::to_string(remaining_of(*limit)));
    append_line(headers, "x-ratelimit-reset-" + end, duration_text(limit->reset_ms));
  }
}

std::string two_digits(int64_t value) {
  return std::to_string(100 + value).substr(1);
}

// RFC 3339, rounded up to the second: "2026-02-11T08:00:00Z".
std::string instant_text(int64_t wall_ms) {
  using namespace std::chrono;
  const sys_seconds instant = ceil<seconds>(sys_time<milliseconds>{milliseconds{wall_ms}});
  const sys_days day = floor<days>(instant);
  const year_month_day date{day};
  const hh_mm_ss<seconds> time{instant - day};
  return std::to_string(int{date.year()}) + "-" + two_digits(unsigned{date.month()}) + "-" +
         two_digits(unsigned{date.day()}) + "T" + two_digits(time.hours().count()) + ":" +
         two_digits(time.minutes().count()) + ":" + two_digits(time.seconds().count()) + "Z";
}

void append_anthropic(const std::vector<ReportedLimit>& limits, int64_t wall_ns,
                      std::string& headers) {
  for (const auto& [metric, name] : anthropic_metrics) {
    const LimitReport* limit = tightest(limits, metric);
    if (limit == nullptr) continue;
    const std::string begin = "anthropic-ratelimit-" + std::string(name);
    append_line(headers, begin + "-limit", std::to_string(ceiling_of(*limit)));
    append_line(headers, begin + "-remaining", std::to_string(remaining_of(*limit)));
    append_line(headers, begin + "-reset", instant_text(wall_ns / 1'000'000 + limit->reset_ms));
  }
}

}  // namespace

std::string duration_text(int64_t ms) {
  if (ms < 1'000) return std::to_string(std::max<int64_t>(0, ms)) + "ms";
  const int64_t hours = ms / 3'600'000;
  const int64_t minutes = ms / 60'000 % 60;
  std::string text;
  if (hours > 0) text += std::to_string(hours) + "h";
  if (hours > 0 || minutes > 0) text += std::to_string(minutes) + "m";
  text += std::to_string(ms / 1'000 % 60);
  if (ms % 1'000 != 0) {
    std::string fraction = std::to_string(1'000 + ms % 1'000).substr(1);
    fraction.resize(fraction.find_last_not_of('0') + 1);
    text += "." + fraction;
  }
  return text + "s";
}

std::string limit_headers(const std::vector<ReportedLimit>& limits, RateStyle style,
                          int64_t wall_ns) {
  std::string headers;
  append_rate_limit(limits, headers);
  if (style == RateStyle::openai) append_openai(limits, headers);
  if (style == RateStyle::anthropic) append_anthropic(limits, wall_ns, headers);
  return headers;
}

}  // namespace sluice::wire
