// What is used of one limit: a few words, and the arithmetic on them. Constant work, whatever the
// amount and the period.
// Flow:   roll(now) first, so that what time has forgotten is gone; then fits, charge, settle.
// Shape:  MeterShape is the limit, compiled, shared by all subjects with the same quota; the words
//         are one subject's. By kind:
//           fixed, anchored day, calendar: used, open, end, since
//           sliding, rolling day: used, open, newest, since; and a ring of (used, open)
//           gcra: as sliding, for refunds, and the level itself with what it takes to know it anew
//             when something comes back (GcraWord)
//           slots: none; the subject counts its open reservations
//         `open` is the part of `used` that reservations hold which are not settled yet.
// Units:  nanoseconds; a calendar's end is wall time, every other time is monotonic.
// Errors: none. Usage stops at amount_max instead of wrapping around.
// Lives:  pure; the words belong to the subject.
// Source: ring of sub-windows: the running sum is what lies in it. GCRA: ITU-T I.371, as a level
//         that leaks, in whole numbers (units times period). Without refunds it is exact. What
//         comes back is as if it had never been charged: the level that the rest would have made
//         is bounded by the ring, each sub-window's charges taken as late as can be, so that it is
//         never below and at most what leaks in a sub-window above.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "api/limit.hpp"
#include "api/quota.hpp"
#include "base/time.hpp"
#include "limiter/calendar.hpp"

namespace sluice::limiter {

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
  api::LimitKind kind = api::LimitKind::slots;
  api::Ceiling ceiling = api::Ceiling::number;
  api::CalendarUnit unit = api::CalendarUnit::none;
  bool count_cached = false;
  uint16_t head_word = 0;  // where its words lie, among those of its subject ...
  uint16_t ring_word = 0;  // ... and its ring, apart: what is looked at together lies together
  uint16_t ring_mask = 0;  // places in the ring less one: so many sub-windows span the period
  uint32_t id = 0;         // tells it from the other limits of its quota
  uint64_t amount = 0;
  int64_t period_ns = 0;
  int64_t width_ns = 0;  // of a sub-window
  const Zone* zone = nullptr;
};

// Sub-windows of a period: what is charged is forgotten at most one of them (and 63 ns) late, and
// never early.
inline constexpr uint32_t sliding_places = 16;      // of which 15 span the period; gcra too
inline constexpr uint32_t rolling_day_places = 64;  // 63: a sub-window has 22 min 52 s

inline constexpr uint32_t head_words_max = 12;  // of a gcra

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

class Meter {
 public:
  // Of a subject's words.
  Meter(const MeterShape& shape, uint64_t* words) noexcept
      : shape_(shape), words_(words + shape.head_word), ring_(words + shape.ring_word) {}

  // Nothing is used, and what was charged before `now` will not be found here.
  void begin(const Moment& now) noexcept;

  void roll(const Moment& now) noexcept;

  // Goes on with the usage of a meter that differs in its amount and ceiling alone.
  void take_over(const MeterShape& before, uint64_t* words, const Moment& now) noexcept;

  // Fetches what a charge at `now` will touch.
  // Inlined always: to g++ 12 a function that only fetches ahead is one without effect.
  [[gnu::always_inline]] void prefetch(const Moment& now) const noexcept {
    if (is_ring()) __builtin_prefetch(&place(now.ns / shape_.width_ns));
  }

  // Of a meter that was rolled.
  uint64_t used() const noexcept;
  uint64_t open() const noexcept;
  bool fits(uint64_t amount) const noexcept;

  // Adds to what is used; `is_open`: until close().
  void charge(uint64_t amount, bool is_open, const Moment& now) noexcept;

  // Ends a reservation's hold on the amount that it was charged, of which so much comes back, as
  // far as its window still runs (gcra: its period); the rest stays charged.
  void close(uint64_t amount, uint64_t back, const Charge& charge, const Moment& now) noexcept;

  // Forgets all but what is open.
  void reset(const Moment& now) noexcept;

  // When so much fits if nobody else asks; with `all_refunded`, if also all that is open came back.
  // base::never_ns: never. In monotonic time.
  int64_t fits_at_ns(uint64_t amount, bool all_refunded, const Moment& now) const noexcept;

  // When nothing will be used any more if nobody asks.
  int64_t empty_at_ns(const Moment& now) const noexcept;

  // Aborts when the sums are not those of the ring.
  void check() const noexcept;

 private:
  __extension__ using Wide = unsigned __int128;
  struct Place {
    uint64_t used;
    uint64_t open;
  };
  enum Word : uint8_t { used_at, open_at, end_at, since_at, newest_at = end_at };
  enum GcraWord : uint8_t {
    level_at = since_at + 1,  // two words, as the next level
    leaked_at = level_at + 2,
    ring_level_at,                   // at the beginning of the ring
    changed_at = ring_level_at + 2,  // the sub-window in which the amount changed last ...
    changing_amount_at,              // ... the least that it was in that one ...
    slow_amount_at,                  // ... and before
    gcra_words
  };

  static Wide less(Wide level, Wide leaked) noexcept { return level > leaked ? level - leaked : 0; }
  bool holds(const Charge& charge) const noexcept { return charge.order >= words_[since_at]; }
  bool is_ring() const noexcept { return shape_.ring_mask != 0; }
  bool is_gcra() const noexcept { return shape_.kind == api::LimitKind::gcra; }
  // Its level counts. Where a word stands for the amount, all that was used in a period does.
  bool is_bucket() const noexcept { return is_gcra() && shape_.ceiling == api::Ceiling::number; }
  Place& place(int64_t sub_window) const noexcept {
    return reinterpret_cast<Place*>(ring_)[sub_window & shape_.ring_mask];
  }
  int64_t time(int word) const noexcept { return static_cast<int64_t>(words_[word]); }
  void set_time(int word, int64_t value) noexcept { words_[word] = static_cast<uint64_t>(value); }
  void forget(uint64_t order) noexcept;
  void roll_ring(const Moment& now) noexcept;
  void roll_calendar(const Moment& now) noexcept;
  void roll_bucket(const Moment& now) noexcept;
  void leak(const Moment& now) noexcept;
  void remember_amount(uint64_t before) noexcept;
  void move_ring_level(int64_t newest) noexcept;
  uint64_t fill_bucket(uint64_t amount) noexcept;
  uint64_t close_ring(uint64_t amount, uint64_t back, const Charge& charge) noexcept;
  Place* place_of(const Charge& charge) const noexcept;
  Wide level() const noexcept { return level_of(level_at); }
  Wide level_of(int word) const noexcept { return (Wide{words_[word + 1]} << 64) | words_[word]; }
  void set_level(int word, Wide level) noexcept;
  void lower_level(const Moment& now) noexcept;
  Wide level_of_ring(bool all_refunded, const Moment& now) const noexcept;
  Wide leaks_in(int64_t sub_window, int64_t ns) const noexcept;
  int64_t oldest() const noexcept { return time(newest_at) - shape_.ring_mask; }
  Wide scaled(uint64_t amount) const noexcept {
    return Wide{amount} * static_cast<uint64_t>(shape_.period_ns);
  }
  int64_t leaks_in_ns(Wide level) const noexcept;
  int64_t ring_fits_at_ns(uint64_t amount, bool all_refunded) const noexcept;
  int64_t ring_empty_at_ns(const Moment& now) const noexcept;
  int64_t end_ns(const Moment& now) const noexcept;

  const MeterShape& shape_;
  uint64_t* words_;
  uint64_t* ring_;
};

// ------------------------------------------------------------------ what every reservation takes

inline void Meter::roll(const Moment& now) noexcept {
  switch (shape_.kind) {
    case api::LimitKind::slots:
      return;
    case api::LimitKind::sliding:
    case api::LimitKind::rolling_day:
      if (now.ns >= (time(newest_at) + 1) * shape_.width_ns) roll_ring(now);
      return;
    case api::LimitKind::fixed:
      if (words_[end_at] == 0 || now.ns < time(end_at)) return;
      set_time(end_at,
               time(end_at) + ((now.ns - time(end_at)) / shape_.period_ns + 1) * shape_.period_ns);
      return forget(now.order);
    case api::LimitKind::anchored_day:
      if (words_[end_at] == 0 || now.ns < time(end_at)) return;
      words_[end_at] = 0;  // until somebody uses it
      return forget(now.order);
    case api::LimitKind::calendar:
      if (now.wall_ns >= time(end_at)) roll_calendar(now);
      return;
    case api::LimitKind::gcra:
      return roll_bucket(now);
  }
}

inline bool Meter::fits(uint64_t amount) const noexcept {
  if (shape_.ceiling != api::Ceiling::number) return shape_.ceiling == api::Ceiling::unlimited;
  if (is_gcra()) return level() + scaled(amount) <= scaled(shape_.amount);
  const uint64_t used = words_[used_at];
  return amount <= shape_.amount && used <= shape_.amount - amount;
}

inline void Meter::charge(uint64_t amount, bool is_open, const Moment& now) noexcept {
  if (shape_.kind == api::LimitKind::slots) return;
  if (is_gcra()) {
    amount = fill_bucket(amount);
  } else {
    amount = std::min(amount, limits::amount_max - words_[used_at]);
  }
  const uint64_t open = is_open ? amount : 0;
  words_[used_at] += amount;
  words_[open_at] += open;
  if (is_ring()) {
    Place& newest = place(time(newest_at));
    newest.used += amount;
    newest.open += open;
  } else if (words_[end_at] == 0 && amount > 0) {
    set_time(end_at, now.ns + shape_.period_ns);  // the first use anchors the window
  }
}

inline void Meter::close(uint64_t amount, uint64_t back, const Charge& charge,
                         const Moment& now) noexcept {
  if (shape_.kind == api::LimitKind::slots || !holds(charge)) return;
  if (is_ring()) {
    const uint64_t came_back = close_ring(amount, back, charge);
    if (is_gcra() && came_back > 0) lower_level(now);
    return;
  }
  words_[open_at] -= std::min(words_[open_at], amount);
  words_[used_at] -= std::min(back, words_[used_at] - words_[open_at]);
}

// Returns how much of it came back.
inline uint64_t Meter::close_ring(uint64_t amount, uint64_t back, const Charge& charge) noexcept {
  Place* const at = place_of(charge);
  if (at == nullptr) return 0;
  amount = std::min(amount, at->open);
  at->open -= amount;
  words_[open_at] -= amount;
  back = std::min(back, at->used - at->open);
  at->used -= back;
  words_[used_at] -= back;
  return back;
}

// Where a charge lies in the ring; null: forgotten.
inline Meter::Place* Meter::place_of(const Charge& charge) const noexcept {
  const int64_t newest = time(newest_at);
  if (charge.ns >= newest * shape_.width_ns) return &place(newest);  // most often: no division
  const int64_t sub_window = charge.ns / shape_.width_ns;
  return newest - sub_window > shape_.ring_mask ? nullptr : &place(sub_window);
}

}  // namespace sluice::limiter
