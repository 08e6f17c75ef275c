// The data that meters work on: a compiled limit, shared by all subjects with the same quota; the
// words of one subject; the time of a call; and the share of a call's amounts that a limit counts.
// Units:  nanoseconds; words of 8 bytes.
// Lives:  values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "api/limit.hpp"
#include "api/quota.hpp"

namespace sluice::limiter {

class Zone;

// The time of a call. `order` grows with each call of a shard: a charge of an earlier window has a
// smaller order than the window's beginning.
struct Moment {
  int64_t ns = 0;       // monotonic
  int64_t wall_ns = 0;  // never behind an earlier one (steady_wall.hpp)
  uint64_t order = 0;
};

// When an amount was charged: enough to find the charge again.
struct Charge {
  int64_t ns = 0;
  uint64_t order = 0;
};

struct MeterShape {
  api::Metric metric = api::Metric::requests;
  api::LimitKind kind = api::LimitKind::concurrency;
  api::Ceiling ceiling = api::Ceiling::number;
  api::CalendarUnit unit = api::CalendarUnit::none;
  bool count_cached = false;
  bool slides = false;     // its whole state is a number and a ring: a RingMeter is enough
  uint16_t head_word = 0;  // offset of its first words in Words::heads
  uint16_t ring_word = 0;  // offset of its ring in Words::rings
  uint16_t ring_mask = 0;  // places in the ring minus one: the sub-windows of a period
  uint32_t id = 0;         // identifies it among the limits of its quota
  uint64_t amount = 0;
  int64_t period_ns = 0;
  int64_t width_ns = 0;  // of a sub-window
  const Zone* zone = nullptr;
};

// The words of one subject: those that every call reads lie together, apart from the rings.
struct Words {
  uint64_t* heads = nullptr;
  uint64_t* rings = nullptr;
};

// Sub-windows of a period: a charge is forgotten at most one of them (and 63 ns) late, and never
// early.
inline constexpr uint32_t sliding_places = 16;      // of which 15 span the period; gcra too
inline constexpr uint32_t rolling_day_places = 64;  // 63: a sub-window has 22 min 52 s

inline constexpr uint32_t head_words_max = 14;  // of a gcra

MeterShape compile(const api::Limit& limit) noexcept;
uint32_t head_words(const MeterShape& shape) noexcept;
uint32_t ring_words(const MeterShape& shape) noexcept;

// The share of a call's amounts that each limit counts, computed once for all limits of all its
// subjects.
class Shares {
 public:
  // Only limits with count_cached count `cached` input tokens.
  explicit Shares(const api::Amounts& amounts, uint64_t cached = 0) noexcept
      : by_metric_{amounts.requests,      amounts.input_tokens,
                   amounts.output_tokens, amounts.input_tokens + amounts.output_tokens,
                   amounts.cost,          1},
        cached_(std::min(cached, amounts.input_tokens)) {}

  uint64_t of(const MeterShape& shape) const noexcept {
    const uint64_t share = by_metric_[static_cast<size_t>(shape.metric)];
    if (cached_ == 0 || shape.count_cached) return share;
    const bool has_input =
        shape.metric == api::Metric::input_tokens || shape.metric == api::Metric::tokens;
    return has_input ? share - cached_ : share;
  }

 private:
  std::array<uint64_t, api::metrics_count> by_metric_;
  uint64_t cached_;  // a part of the input tokens
};

}  // namespace sluice::limiter
