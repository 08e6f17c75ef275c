// Quotas as data: what is counted for a subject, up to which amount, over which time.
// Flow:  policy/ reads them from files, wire/ from requests; quota/ holds usage against them;
//        wire/ tells them.
// Lives: values; a Quota is shared by all subjects that have the same one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"

namespace sluice::api {

// What a limit counts. As on the wire; numbers are never reused.
enum class Metric : uint8_t {
  requests = 0,
  input_tokens = 1,
  output_tokens = 2,
  tokens = 3,       // input and output
  cost = 4,         // micro-units of whatever is paid in
  concurrency = 5,  // reservations that are open: a slot each, free again when they end
};
inline constexpr uint32_t metrics_count = 6;

// Over which time. As on the wire; numbers are never reused.
enum class LimitKind : uint8_t {
  concurrency = 0,   // concurrency: no time at all
  fixed = 1,         // windows of `period_ms`, anchored at the first use, in phase
  sliding = 2,       // any `period_ms`, by a ring of sub-windows
  gcra = 3,          // `amount` leaks away evenly over `period_ms`; all of it at once as a burst
  anchored_day = 4,  // 24 hours from the first use; the next day begins with the first use after it
  rolling_day = 5,   // any 24 hours, by a ring of sub-windows
  calendar = 6,      // hour, day, week (from Monday) or month of a time zone
};
inline constexpr uint32_t limit_kinds_count = 7;

enum class CalendarUnit : uint8_t { none = 0, hour = 1, day = 2, week = 3, month = 4 };

// Zero is a number; what it used to be mistaken for are words.
enum class Ceiling : uint8_t {
  number = 0,
  unlimited = 1,  // counted, never refused
  block = 2,      // nothing passes, however little it asks for
};

struct Limit {
  std::string name;  // unique in its quota; 1 to limits::limit_name_bytes_max bytes
  Metric metric = Metric::requests;
  LimitKind kind = LimitKind::sliding;
  Ceiling ceiling = Ceiling::number;
  uint64_t amount = 0;    // at most limits::amount_max
  int64_t period_ms = 0;  // days: 24 hours; slots and calendar: 0
  CalendarUnit unit = CalendarUnit::none;
  std::string time_zone;      // calendar: an IANA name, "UTC" when none was said
  bool count_cached = false;  // cached input tokens count as input, too

  bool operator==(const Limit&) const = default;
};

struct Quota {
  std::vector<Limit> limits;    // at most limits::quota_limits_max
  bool refund_expired = false;  // an expired reservation gives its charge back
  uint32_t overtakers_max = 0;  // how many may pass the head of the line; 0: none, strictly
  std::string profile;          // "openai (2026-02)": the profile it came from, if it did

  bool operator==(const Quota&) const = default;
};

// Where a subject's quota came from, in the order of precedence.
enum class QuotaSource : uint8_t {
  none = 0,      // unknown subject
  run_time = 1,  // put by a request; stays until it is deleted
  file = 2,      // of the configuration file, by name or by pattern
  profile = 3,   // a profile that the file names
  standard = 4,  // the file's default for unknown subjects
};

// As in files, JSON and metrics: "input_tokens", "anchored_day", "month", "run_time".
std::string_view metric_name(Metric) noexcept;
std::string_view kind_name(LimitKind) noexcept;
std::string_view unit_name(CalendarUnit) noexcept;
std::string_view source_name(QuotaSource) noexcept;

}  // namespace sluice::api
