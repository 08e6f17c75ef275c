// What meters work on: a limit, compiled, shared by all subjects with the same quota; one subject's
// words; when something happens; and what limits count of some amounts.
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

// When something happens, for meters. `order` counts the calls of a core: what was charged in an
// earlier window has a smaller one than the window's beginning.
struct Moment {
  int64_t ns = 0;       // monotonic
  int64_t wall_ns = 0;  // never behind an earlier one (steady_wall.hpp)
  uint64_t order = 0;
};

// When an amount was charged: as far as it takes to find it again.
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
  bool slides = false;     // all there is to it are a number and a ring: a RingMeter will do
  uint16_t head_word = 0;  // where its first words lie among its subject's ...
  uint16_t ring_word = 0;  // ... and its ring among the rings
  uint16_t ring_mask = 0;  // places in the ring less one: so many sub-windows span the period
  uint32_t id = 0;         // tells it from the other limits of its quota
  uint64_t amount = 0;
  int64_t period_ns = 0;
  int64_t width_ns = 0;  // of a sub-window
  const Zone* zone = nullptr;
};

// One subject's: what every call looks at lies together, apart from what few do.
struct Words {
  uint64_t* heads = nullptr;
  uint64_t* rings = nullptr;
};

// Sub-windows of a period: what is charged is forgotten at most one of them (and 63 ns) late, and
// never early.
inline constexpr uint32_t sliding_places = 16;      // of which 15 span the period; gcra too
inline constexpr uint32_t rolling_day_places = 64;  // 63: a sub-window has 22 min 52 s

inline constexpr uint32_t head_words_max = 14;  // of a gcra

MeterShape compile(const api::Limit& limit) noexcept;
uint32_t head_words(const MeterShape& shape) noexcept;
uint32_t ring_words(const MeterShape& shape) noexcept;

// What limits count of some amounts: worked out once, for all limits of all subjects of a call.
class Shares {
 public:
  // `cached` input tokens are counted only by limits that say so.
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
