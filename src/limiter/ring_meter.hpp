// What is used of a limit by sub-windows, with their running sum: all there is to a sliding limit
// and to a rolling day, and for other kinds what may come back.
// Flow:   roll(now) first, so that what time has forgotten is gone; then fits, charge. close()
//         whenever.
// Shape:  six words of the subject's, among them the newest sub-window, which is charged; those
//         before it lie in a ring of (used, open), which is looked at when time goes on, and for
//         what ends later. A period has as many sub-windows as the ring has places, but one.
// Errors: none. Whoever charges sees to it that the sum does not wrap around: it fits, or is cut.
// Lives:  pure; the words belong to the subject. What every reservation takes is inlined, and
//         calls nothing with `this`, so that a meter lies in registers.
// Source: ring of sub-windows: the running sum is what lies in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limiter/meter_shape.hpp"

namespace sluice::limiter {

class RingMeter {
 public:
  struct Place {
    uint64_t used;
    uint64_t open;
  };
  enum Word : uint8_t {
    used_at,
    open_at,
    newest_at,
    since_at,
    newest_used_at,
    newest_open_at,
    words_count
  };

  // Of a subject's words.
  RingMeter(const MeterShape& shape, const Words& words) noexcept
      : RingMeter(shape, words.heads + shape.head_word, words.rings + shape.ring_word) {}
  // Its own.
  RingMeter(const MeterShape& shape, uint64_t* words, uint64_t* ring) noexcept
      : shape_(shape), words_(words), ring_(ring) {}

  // The rest of its words was cleared.
  void begin(const Moment& now) noexcept {
    words_[since_at] = now.order;
    words_[newest_at] = static_cast<uint64_t>(now.ns / shape_.width_ns);
  }

  void roll(const Moment& now) noexcept {
    if (now.ns >= (newest() + 1) * shape_.width_ns) RingMeter(*this).forget_until(now);
  }

  // Of a meter that was rolled.
  uint64_t used() const noexcept { return words_[used_at]; }
  uint64_t open() const noexcept { return words_[open_at]; }
  bool fits(uint64_t amount) const noexcept {
    return amount <= shape_.amount && used() <= shape_.amount - amount;
  }

  void charge(uint64_t amount, bool is_open) noexcept {
    words_[used_at] += amount;
    words_[newest_used_at] += amount;
    if (!is_open) return;
    words_[open_at] += amount;
    words_[newest_open_at] += amount;
  }

  // Ends the hold on an amount, of which so much comes back. Returns how much did. (The moment is
  // what Meter takes, too: one loop serves both.)
  uint64_t close(uint64_t amount, uint64_t back, const Charge& charge,
                 const Moment& /*now*/) noexcept {
    if (charge.order < words_[since_at]) return 0;
    Place* at = newest_place();
    if (charge.ns < newest() * shape_.width_ns) {
      const int64_t sub_window = charge.ns / shape_.width_ns;
      if (sub_window < oldest()) return 0;
      at = older_place(sub_window);
    }
    amount = std::min(amount, at->open);
    const uint64_t still_open = at->open - amount;
    back = std::min(back, at->used - still_open);
    at->open = still_open;
    at->used -= back;
    words_[open_at] -= amount;
    words_[used_at] -= back;
    return back;
  }

  // Forgets all but what is open.
  void reset() noexcept;

  // When so much fits that does not fit now; with `all_refunded`, if all that is open came back.
  int64_t fits_at_ns(uint64_t amount, bool all_refunded) const noexcept;
  // When nothing will be used any more if nobody asks.
  int64_t empty_at_ns(const Moment& now) const noexcept;

  // Aborts when the sums are not those of the ring.
  void check() const noexcept;

  // Sub-windows, counted from the clock's beginning.
  int64_t newest() const noexcept { return static_cast<int64_t>(words_[newest_at]); }
  int64_t oldest() const noexcept { return newest() - shape_.ring_mask; }
  Place& place(int64_t sub_window) const noexcept {
    return *(sub_window == newest() ? newest_place() : older_place(sub_window));
  }

  // Fetches what close() will touch of what was charged then, if it is older than the newest.
  // Inlined always: to g++ 12 a function that only fetches ahead is one without effect.
  [[gnu::always_inline]] void prefetch(int64_t charged_ns, const Moment& now) const noexcept {
    const int64_t sub_window = charged_ns / shape_.width_ns;
    if (now.ns >= (sub_window + 1) * shape_.width_ns) __builtin_prefetch(older_place(sub_window));
  }

 private:
  Place* newest_place() const noexcept { return reinterpret_cast<Place*>(words_ + newest_used_at); }
  Place* older_place(int64_t sub_window) const noexcept {
    return reinterpret_cast<Place*>(ring_) + (sub_window & shape_.ring_mask);
  }
  void forget_until(const Moment& now) noexcept;

  const MeterShape& shape_;
  uint64_t* words_;
  uint64_t* ring_;
};

}  // namespace sluice::limiter
