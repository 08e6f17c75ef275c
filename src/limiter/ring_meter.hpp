// The usage of a limit by sub-windows, with their running sum: the whole state of a sliding limit
// and of a rolling day; of a gcra, the charges that may be refunded.
// Flow:   roll(now) first, which forgets expired sub-windows; then fits, charge. close() at any
//         time.
// Shape:  six words of the subject, among them the newest sub-window, which is charged; earlier
//         ones lie in a ring of (used, open), which is read when a sub-window ends and when a
//         close() is for an older charge. A period has one sub-window less than the ring has
//         places.
// Errors: none. The caller ensures that the sum does not wrap around: the amount fits, or is cut.
// Lives:  pure; the words belong to the subject. The functions that every reservation calls are
//         inlined and call nothing with `this`, so that a meter stays in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prefetch.hpp"
#include "limiter/meter_shape.hpp"

namespace sluice::limiter {

class RingMeter {
 public:
  struct SubWindow {
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

  // Over the words of a subject.
  RingMeter(const MeterShape& shape, const Words& words) noexcept
      : RingMeter(shape, words.heads + shape.head_word, words.rings + shape.ring_word) {}
  // Over words that the caller owns.
  RingMeter(const MeterShape& shape, uint64_t* words, uint64_t* ring) noexcept
      : shape_(shape), words_(words), ring_(ring) {}

  // The caller has cleared the other words.
  void begin(const Moment& now) noexcept {
    words_[since_at] = now.order;
    words_[newest_at] = static_cast<uint64_t>(now.ns / shape_.width_ns);
  }

  void roll(const Moment& now) noexcept {
    if (now.ns >= (newest() + 1) * shape_.width_ns) RingMeter(*this).forget_until(now);
  }

  // Call roll() before these.
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

  // Ends the hold on `amount`, and refunds up to `refund` of it. Returns how much it refunded. (It
  // takes the moment because Meter does: one loop serves both.)
  uint64_t close(uint64_t amount, uint64_t refund, const Charge& charge,
                 const Moment& /*now*/) noexcept {
    if (charge.order < words_[since_at]) return 0;
    SubWindow* at = newest_place();
    if (charge.ns < newest() * shape_.width_ns) {
      const int64_t sub_window = charge.ns / shape_.width_ns;
      if (sub_window < oldest()) return 0;
      at = older_place(sub_window);
    }
    amount = std::min(amount, at->open);
    const uint64_t still_open = at->open - amount;
    refund = std::min(refund, at->used - still_open);
    at->open = still_open;
    at->used -= refund;
    words_[open_at] -= amount;
    words_[used_at] -= refund;
    return refund;
  }

  // Forgets all usage that is not open.
  void reset() noexcept;

  // When `amount` fits, which does not fit now; with `all_refunded`, if all open usage were
  // refunded.
  int64_t fits_at_ns(uint64_t amount, bool all_refunded) const noexcept;
  // When the usage is zero if no call comes.
  int64_t empty_at_ns(const Moment& now) const noexcept;

  // Aborts when the sums are not those of the ring.
  void check() const noexcept;

  // Sub-windows, counted from the clock's beginning.
  int64_t newest() const noexcept { return static_cast<int64_t>(words_[newest_at]); }
  int64_t oldest() const noexcept { return newest() - shape_.ring_mask; }
  SubWindow& place(int64_t sub_window) const noexcept {
    return *(sub_window == newest() ? newest_place() : older_place(sub_window));
  }

  // Fetches what close() will touch for a charge of that time, unless that is in the newest
  // sub-window.
  SLUICE_PREFETCH_FUNCTION void prefetch(int64_t charged_ns, const Moment& now) const noexcept {
    const int64_t sub_window = charged_ns / shape_.width_ns;
    if (now.ns >= (sub_window + 1) * shape_.width_ns) __builtin_prefetch(older_place(sub_window));
  }

  // Fetches the ring, if an older sub-window has usage.
  SLUICE_PREFETCH_FUNCTION void prefetch_ring() const noexcept {
    if (words_[used_at] == words_[newest_used_at]) return;
    for (uint32_t place = 0; place <= shape_.ring_mask; place += places_per_line) {
      __builtin_prefetch(reinterpret_cast<SubWindow*>(ring_) + place);
    }
  }

 private:
  static constexpr uint32_t places_per_line = 64 / sizeof(SubWindow);

  SubWindow* newest_place() const noexcept {
    return reinterpret_cast<SubWindow*>(words_ + newest_used_at);
  }
  SubWindow* older_place(int64_t sub_window) const noexcept {
    return reinterpret_cast<SubWindow*>(ring_) + (sub_window & shape_.ring_mask);
  }
  void forget_until(const Moment& now) noexcept;

  const MeterShape& shape_;
  uint64_t* words_;
  uint64_t* ring_;
};

}  // namespace sluice::limiter
