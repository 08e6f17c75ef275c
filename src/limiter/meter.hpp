// The usage of one limit: a few words, and the arithmetic on them. Constant work, whatever the
// amount and the period.
// Flow:   roll(now) first, which forgets expired usage; then fits, charge. close() at any time.
// Shape:  words of one subject, by kind:
//           fixed, anchored day, calendar: used, open, end, since
//           sliding, rolling day: those of a RingMeter, and its ring
//           gcra: as sliding, for refunds, and the level itself with what it takes to compute it
//             anew after a refund (GcraWord)
//           concurrency: none; the subject counts its open reservations
//         `open` is the part of `used` that is held by reservations not settled yet.
// Units:  nanoseconds; a calendar's end is wall time, every other time is monotonic.
// Errors: none. Usage stops at amount_max instead of wrapping around.
// Lives:  pure; the words belong to the subject.
// Source: GCRA: ITU-T I.371, as a level that leaks, in whole numbers (units times period). Without
//         refunds it is exact. A refund sets the level that the remaining charges alone would have
//         made, as far as the ring shows it: with each sub-window's charges taken as late as
//         possible, the level is never too low, and too high by at most what leaks in a sub-window.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prefetch.hpp"
#include "base/time.hpp"
#include "limiter/meter_shape.hpp"
#include "limiter/ring_meter.hpp"

namespace sluice::limiter {

class Meter {
 public:
  enum Word : uint8_t {
    used_at = RingMeter::used_at,  // the same, whatever the kind
    open_at = RingMeter::open_at,
    since_at = RingMeter::since_at,
    end_at = RingMeter::newest_at  // of a window
  };
  enum GcraWord : uint8_t {
    level_at = RingMeter::words_count,  // two words, as the next level
    leaked_at = level_at + 2,
    ring_level_at,                   // at the beginning of the ring
    changed_at = ring_level_at + 2,  // the sub-window in which the amount changed last ...
    changing_amount_at,              // ... the least that it was in that one ...
    slow_amount_at,                  // ... and before
    gcra_words
  };

  // Over the words of a subject.
  Meter(const MeterShape& shape, const Words& words) noexcept
      : shape_(shape),
        words_(words.heads + shape.head_word),
        ring_(words.rings + shape.ring_word) {}

  // Begins without usage; close() finds no charge from before `now`.
  void begin(const Moment& now) noexcept;

  void roll(const Moment& now) noexcept;

  // Continues with the usage of a meter that differs only in its amount and ceiling.
  void take_over(const MeterShape& before, const Words& words, const Moment& now) noexcept;

  // Fetches what close() will touch besides the first words.
  SLUICE_PREFETCH_FUNCTION void prefetch(int64_t charged_ns, const Moment& now) const noexcept {
    if (is_ring()) ring().prefetch(charged_ns, now);
  }

  // Call roll() before these.
  uint64_t used() const noexcept;
  uint64_t open() const noexcept;
  bool fits(uint64_t amount) const noexcept;

  // Adds to the usage; `is_open`: held until close().
  void charge(uint64_t amount, bool is_open, const Moment& now) noexcept;

  // Ends a reservation's hold on `amount`, which it was charged, and refunds `refund` of it, as far
  // as the window of the charge still runs (gcra: its period); the rest stays charged. Until the
  // meter is rolled it may still count expired usage: refunding that does no harm.
  void close(uint64_t amount, uint64_t refund, const Charge& charge, const Moment& now) noexcept;

  // Forgets all usage that is not open.
  void reset(const Moment& now) noexcept;

  // When `amount` fits if no other call comes; with `all_refunded`, if also all open usage were
  // refunded. base::never_ns: never. In monotonic time.
  int64_t fits_at_ns(uint64_t amount, bool all_refunded, const Moment& now) const noexcept;

  // When the usage is zero if no call comes.
  int64_t empty_at_ns(const Moment& now) const noexcept;

  // Aborts when the sums are not those of the ring.
  void check() const noexcept;

 private:
  __extension__ using Wide = unsigned __int128;

  static Wide saturating_subtract(Wide level, Wide leaked) noexcept {
    return level > leaked ? level - leaked : 0;
  }
  bool is_ring() const noexcept { return shape_.ring_mask != 0; }
  bool is_gcra() const noexcept { return shape_.kind == api::LimitKind::gcra; }
  // Whether its level decides. With a word in place of the number, the usage of a period does.
  bool is_bucket() const noexcept { return is_gcra() && shape_.ceiling == api::Ceiling::number; }
  RingMeter ring() const noexcept { return {shape_, words_, ring_}; }
  // A copy for calls that are not inlined: a meter stays in registers if its address is never
  // taken.
  Meter copy() const noexcept { return *this; }
  int64_t time(int word) const noexcept { return static_cast<int64_t>(words_[word]); }
  void set_time(int word, int64_t value) noexcept { words_[word] = static_cast<uint64_t>(value); }
  void forget(uint64_t order) noexcept;
  void roll_window(const Moment& now) noexcept;
  void roll_calendar(const Moment& now) noexcept;
  void roll_bucket(const Moment& now) noexcept;
  void close_bucket(uint64_t amount, uint64_t refund, const Charge& charge,
                    const Moment& now) noexcept;
  void leak(const Moment& now) noexcept;
  void remember_amount(uint64_t before) noexcept;
  void move_ring_level(int64_t newest) noexcept;
  uint64_t fill_bucket(uint64_t amount) noexcept;
  Wide level() const noexcept { return level_of(level_at); }
  Wide level_of(int word) const noexcept { return (Wide{words_[word + 1]} << 64) | words_[word]; }
  void set_level(int word, Wide level) noexcept;
  void lower_level(const Moment& now) noexcept;
  Wide level_of_ring(bool all_refunded, const Moment& now) const noexcept;
  Wide leak_of(int64_t sub_window, int64_t ns) const noexcept;
  Wide scaled(uint64_t amount) const noexcept {
    return Wide{amount} * static_cast<uint64_t>(shape_.period_ns);
  }
  int64_t ns_to_leak(Wide level) const noexcept;
  int64_t end_ns(const Moment& now) const noexcept;

  const MeterShape& shape_;
  uint64_t* words_;
  uint64_t* ring_;
};

// ------------------------------------------------------------------ what every reservation calls

inline void Meter::roll(const Moment& now) noexcept {
  switch (shape_.kind) {
    case api::LimitKind::concurrency:
      return;
    case api::LimitKind::sliding:
    case api::LimitKind::rolling_day:
      return ring().roll(now);
    case api::LimitKind::fixed:
    case api::LimitKind::anchored_day:
      if (words_[end_at] != 0 && now.ns >= time(end_at)) copy().roll_window(now);
      return;
    case api::LimitKind::calendar:
      if (now.wall_ns >= time(end_at)) copy().roll_calendar(now);
      return;
    case api::LimitKind::gcra:
      return copy().roll_bucket(now);
  }
}

inline bool Meter::fits(uint64_t amount) const noexcept {
  if (shape_.ceiling != api::Ceiling::number) return shape_.ceiling == api::Ceiling::unlimited;
  if (is_gcra()) return level() + scaled(amount) <= scaled(shape_.amount);
  const uint64_t used = words_[used_at];
  return amount <= shape_.amount && used <= shape_.amount - amount;
}

inline void Meter::charge(uint64_t amount, bool is_open, const Moment& now) noexcept {
  if (shape_.kind == api::LimitKind::concurrency) return;
  if (is_gcra()) {
    amount = copy().fill_bucket(amount);
  } else {
    amount = std::min(amount, limits::amount_max - words_[used_at]);
  }
  if (is_ring()) return ring().charge(amount, is_open);
  words_[used_at] += amount;
  words_[open_at] += is_open ? amount : 0;
  // The first use anchors the window.
  if (words_[end_at] == 0 && amount > 0) set_time(end_at, now.ns + shape_.period_ns);
}

inline void Meter::close(uint64_t amount, uint64_t refund, const Charge& charge,
                         const Moment& now) noexcept {
  if (shape_.kind == api::LimitKind::concurrency) return;
  if (is_gcra()) return copy().close_bucket(amount, refund, charge, now);
  if (is_ring()) {
    ring().close(amount, refund, charge, now);
    return;
  }
  if (charge.order < words_[since_at]) return;
  words_[open_at] -= std::min(words_[open_at], amount);
  words_[used_at] -= std::min(refund, words_[used_at] - words_[open_at]);
}

}  // namespace sluice::limiter
