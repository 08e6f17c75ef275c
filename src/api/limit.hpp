// Quotas as data: what a limit counts for a subject, up to which amount, over which period.
// Flow:  policy/ reads them from files, wire/ from requests; quota/ counts usage against them;
//        wire/ encodes them.
// Lives: values; a Quota is shared by all subjects that have the same one.
#pragma once

#include <array>
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
  concurrency = 5,  // open reservations: each counts one until it ends
};
inline constexpr uint32_t metrics_count = 6;

// How a limit counts over time. As on the wire; numbers are never reused.
enum class LimitKind : uint8_t {
  concurrency = 0,   // open reservations: no period
  fixed = 1,         // windows of `period_ms`, anchored at the first use, in phase
  sliding = 2,       // any `period_ms`, by a ring of sub-windows
  gcra = 3,          // `amount` leaks evenly over `period_ms`; a burst may take all at once
  anchored_day = 4,  // 24 hours from the first use; the next day begins with the first use after it
  rolling_day = 5,   // any 24 hours, by a ring of sub-windows
  calendar = 6,      // hour, day, week (from Monday) or month of a time zone
};
inline constexpr uint32_t limit_kinds_count = 7;

enum class CalendarUnit : uint8_t { none = 0, hour = 1, day = 2, week = 3, month = 4 };

// Zero is an amount like any other; "unlimited" and "block" are values of their own.
enum class Ceiling : uint8_t {
  number = 0,
  unlimited = 1,  // counted, never refused
  block = 2,      // refuses every call, however small
};

struct Limit {
  std::string name;  // unique in its quota; 1 to limits::limit_name_bytes_max bytes
  Metric metric = Metric::requests;
  LimitKind kind = LimitKind::sliding;
  Ceiling ceiling = Ceiling::number;
  uint64_t amount = 0;    // at most limits::amount_max
  int64_t period_ms = 0;  // days: 24 hours; concurrency and calendar: 0
  CalendarUnit unit = CalendarUnit::none;
  std::string time_zone;      // calendar: an IANA name, "UTC" when none was given
  bool count_cached = false;  // cached input tokens count as input, too

  bool operator==(const Limit&) const = default;
};

struct Quota {
  std::vector<Limit> limits;    // at most limits::quota_limits_max
  bool refund_expired = false;  // expiry refunds a reservation's charge
  uint32_t overtakers_max = 0;  // waiters that may overtake the head of the queue; 0: none
  std::string profile;          // "openai (2026-02)": its profile; empty: from none

  bool operator==(const Quota&) const = default;
};

// The source of a subject's quota, in the order of precedence.
enum class QuotaSource : uint8_t {
  none = 0,          // unknown subject
  run_time = 1,      // put by a request; stays until it is deleted
  file = 2,          // of the configuration file, by name or by pattern
  profile = 3,       // a profile that the file names
  file_default = 4,  // the file's default for unknown subjects
};

// Indexed by the number on the wire.
inline constexpr std::array<std::string_view, metrics_count> metric_names{
    "requests", "input_tokens", "output_tokens", "tokens", "cost", "concurrency"};
inline constexpr std::array<std::string_view, limit_kinds_count> kind_names{
    "concurrency", "fixed", "sliding", "gcra", "anchored_day", "rolling_day", "calendar"};
inline constexpr std::array<std::string_view, 5> unit_names{"none", "hour", "day", "week", "month"};

// As in files, JSON and metrics: "input_tokens", "anchored_day", "month", "run_time".
std::string_view metric_name(Metric) noexcept;
std::string_view kind_name(LimitKind) noexcept;
std::string_view unit_name(CalendarUnit) noexcept;
std::string_view source_name(QuotaSource) noexcept;

}  // namespace sluice::api
