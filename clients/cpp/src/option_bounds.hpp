// The bounds of all that a caller may choose: of options, amounts, texts and lists. Part of Client.
// Flow:   client.cpp, client_quota.cpp, quota_checks.cpp and link.cpp check by these rows; the test
//         of bounds (option_bounds_test.cpp) tries each row at and beyond its bounds.
// Units:  as the option is named, or the row's; of a text or a list, its size.
// Errors: std::invalid_argument; its text begins with the option, as in the answers of REST.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "sluicegate/client.hpp"
#include "sluicegate/quota_frames.hpp"

namespace sluicegate {

// -------------------------------------------------------------------------------- one bound

enum class Counted : uint8_t { number, milliseconds, bytes, names, entries };

struct Bound {
  std::string_view name;
  uint64_t least;
  uint64_t greatest;
  Counted counted = Counted::number;
  // A value outside with a meaning of its own, which a complaint mentions.
  std::optional<uint64_t> besides{};
  std::string_view besides_text{};

  constexpr bool holds(uint64_t value) const noexcept {
    return value - least <= greatest - least || value == besides;
  }
};

// `place`: what the complaint begins with, such as "limits[1], ".
[[noreturn]] void throw_outside(const Bound& bound, uint64_t value, std::string_view place);

inline void require_within(const Bound& bound, uint64_t value, std::string_view place = {}) {
  if (!bound.holds(value)) throw_outside(bound, value, place);
}

// ------------------------------------------------------------------------------- the options

template <typename Options, typename T>
struct OptionRow {
  T Options::*member;
  Bound bound;
};
template <typename Options, typename T>
OptionRow(T Options::*, Bound) -> OptionRow<Options, T>;

constexpr uint64_t counted_value(uint64_t value) noexcept {
  return value;
}
// A negative one is beyond every bound.
constexpr uint64_t counted_value(std::chrono::milliseconds value) noexcept {
  return static_cast<uint64_t>(value.count());
}
constexpr uint64_t counted_value(std::string_view text) noexcept {
  return text.size();
}

template <typename Options, typename T>
void require_within(const OptionRow<Options, T>& row, const Options& options,
                    std::string_view place) {
  require_within(row.bound, counted_value(options.*row.member), place);
}
// One that is not set is within.
template <typename Options, typename T>
void require_within(const OptionRow<Options, std::optional<T>>& row, const Options& options,
                    std::string_view place) {
  const std::optional<T>& value = options.*row.member;
  if (value) require_within(row.bound, counted_value(*value), place);
}

template <typename Options, typename... Values>
void require_all_within(const std::tuple<OptionRow<Options, Values>...>& rows,
                        const Options& options, std::string_view place = {}) {
  std::apply([&](const auto&... row) { (require_within(row, options, place), ...); }, rows);
}

// -------------------------------------------------------------------------------- the tables

// Of options that have no bound of their own but their type's.
inline constexpr uint64_t number_max = std::numeric_limits<uint32_t>::max();
// A year: no sum with the clock overflows.
inline constexpr std::chrono::milliseconds longest_time = std::chrono::hours{24 * 365};

inline constexpr uint64_t permits_max = 1'000'000'000;

constexpr Bound time_bound(std::string_view name, uint64_t least = 1) {
  return {name, least, static_cast<uint64_t>(longest_time.count()), Counted::milliseconds};
}
// Longer times are cut to a year (patience.hpp).
inline constexpr Bound timeout_bound{"timeout", 0, std::numeric_limits<int64_t>::max(),
                                     Counted::milliseconds};
inline constexpr Bound client_name_bound{"client_name", 0, UINT16_MAX, Counted::bytes};
inline constexpr Bound released_bound{"cost", 1, permits_max};
inline constexpr Bound key_bound{"key", 0, UINT16_MAX, Counted::bytes};
inline constexpr Bound wait_limit_bound{"wait_limit_ms", 0, 3'600'000};
inline constexpr Bound window_bound{"window_ms",     10,          31'536'000'000,
                                    Counted::number, keep_window, "keep_window"};
inline constexpr Bound requests_bound{"requests", 0, number_max - 1};
inline constexpr Bound lifetime_bound{"lifetime_ms",   10, 2'592'000'000,
                                      Counted::number, 0,  "0 for the server's default"};
inline constexpr Bound subject_bound{"subject", 1, UINT16_MAX, Counted::bytes};
inline constexpr Bound subjects_bound{"subjects", 1, 8, Counted::names};
inline constexpr Bound limits_bound{"limits", 0, 16, Counted::entries};
constexpr Bound amount_bound(std::string_view name) {
  return {name, 0, amount_max};
}
constexpr Bound label_bound(std::string_view name) {
  return {name, 0, 128, Counted::bytes};
}

inline constexpr auto client_options = std::tuple{
    OptionRow{&ClientOptions::client_name, client_name_bound},
    OptionRow{&ClientOptions::connect_timeout, time_bound("connect_timeout")},
    OptionRow{&ClientOptions::call_timeout, time_bound("call_timeout")},
    OptionRow{&ClientOptions::backoff_first, time_bound("backoff_first")},
    OptionRow{&ClientOptions::backoff_longest, time_bound("backoff_longest")},
    OptionRow{&ClientOptions::owner_retry, time_bound("owner_retry")},
    OptionRow{&ClientOptions::pending_max, Bound{"pending_max", 1, number_max}},
    OptionRow{&ClientOptions::frame_entries_max, Bound{"frame_entries_max", 1, 8'192}},
    OptionRow{&ClientOptions::frames_in_flight, Bound{"frames_in_flight", 1, number_max}},
    OptionRow{&ClientOptions::kept_settles_max, Bound{"kept_settles_max", 0, number_max}},
    OptionRow{&ClientOptions::settle_timeout, time_bound("settle_timeout", 0)}};

// Of a single connection. Its time-outs may be 0: only what has already arrived is in time.
inline constexpr auto connect_options =
    std::tuple{OptionRow{&ConnectOptions::client_name, client_name_bound},
               OptionRow{&ConnectOptions::connect_timeout, time_bound("connect_timeout", 0)},
               OptionRow{&ConnectOptions::call_timeout, time_bound("call_timeout", 0)},
               OptionRow{&ConnectOptions::wanted_shard, Bound{"wanted_shard", 0, number_max - 1}}};

inline constexpr auto acquire_options = std::tuple{
    OptionRow{&AcquireOptions::cost, Bound{"cost", 0, permits_max}},
    OptionRow{&AcquireOptions::max_requests,
              Bound{"max_requests", 1, permits_max, Counted::number, keep, "keep"}},
    OptionRow{&AcquireOptions::max_requests_in_queue,
              Bound{"max_requests_in_queue", 0, permits_max, Counted::number, keep, "keep"}},
    OptionRow{&AcquireOptions::window_ms, window_bound},
    OptionRow{&AcquireOptions::wait_limit_ms, wait_limit_bound},
    OptionRow{&AcquireOptions::timeout, timeout_bound}};

inline constexpr auto reserve_options =
    std::tuple{OptionRow{&ReserveOptions::requests, requests_bound},
               OptionRow{&ReserveOptions::input_tokens, amount_bound("input_tokens")},
               OptionRow{&ReserveOptions::max_output_tokens, amount_bound("max_output_tokens")},
               OptionRow{&ReserveOptions::cost, amount_bound("cost")},
               OptionRow{&ReserveOptions::wait_limit_ms, wait_limit_bound},
               OptionRow{&ReserveOptions::lifetime_ms, lifetime_bound},
               OptionRow{&ReserveOptions::id, label_bound("id")},
               OptionRow{&ReserveOptions::owner, label_bound("owner")},
               OptionRow{&ReserveOptions::timeout, timeout_bound}};

inline constexpr auto consume_options =
    std::tuple{OptionRow{&ConsumeOptions::wait_limit_ms, wait_limit_bound},
               OptionRow{&ConsumeOptions::id, label_bound("id")},
               OptionRow{&ConsumeOptions::timeout, timeout_bound}};

inline constexpr auto used_amounts =
    std::tuple{OptionRow{&Used::requests, requests_bound},
               OptionRow{&Used::input_tokens, amount_bound("input_tokens")},
               OptionRow{&Used::cached_input_tokens, amount_bound("cached_input_tokens")},
               OptionRow{&Used::output_tokens, amount_bound("output_tokens")},
               OptionRow{&Used::cost, amount_bound("cost")}};

// The server checks the rest of a quota, and names its complaints alike.
inline constexpr auto limit_amounts = std::tuple{OptionRow{&Limit::amount, amount_bound("amount")}};

}  // namespace sluicegate
