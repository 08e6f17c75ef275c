#include "limiter/ring_meter.hpp"

#include "base/assert.hpp"

namespace sluice::limiter {

void RingMeter::forget_until(const Moment& now) noexcept {
  const int64_t now_newest = now.ns / shape_.width_ns;
  *older_place(newest()) = *newest_place();
  *newest_place() = {};
  // Clears the places that are needed again, or would have been in between.
  const int64_t first = std::max(newest() + 1, now_newest - shape_.ring_mask);
  for (int64_t sub_window = first; sub_window <= now_newest; ++sub_window) {
    SubWindow& forgotten = *older_place(sub_window);
    words_[used_at] -= forgotten.used;
    words_[open_at] -= forgotten.open;
    forgotten = {};
  }
  words_[newest_at] = static_cast<uint64_t>(now_newest);
}

void RingMeter::reset() noexcept {
  words_[used_at] = words_[open_at];
  for (int64_t sub_window = oldest(); sub_window <= newest(); ++sub_window) {
    place(sub_window).used = place(sub_window).open;
  }
}

int64_t RingMeter::fits_at_ns(uint64_t amount, bool all_refunded) const noexcept {
  const int64_t places = int64_t{shape_.ring_mask} + 1;
  uint64_t there = used() - (all_refunded ? open() : 0);
  for (int64_t sub_window = oldest(); sub_window <= newest(); ++sub_window) {
    const SubWindow& at = place(sub_window);
    there -= at.used - (all_refunded ? at.open : 0);
    if (there <= shape_.amount - amount) return (sub_window + places) * shape_.width_ns;
  }
  ASSERT(false);
}

int64_t RingMeter::empty_at_ns(const Moment& now) const noexcept {
  const int64_t places = int64_t{shape_.ring_mask} + 1;
  for (int64_t sub_window = newest(); sub_window >= oldest(); --sub_window) {
    if (place(sub_window).used > 0) return (sub_window + places) * shape_.width_ns;
  }
  return now.ns;
}

void RingMeter::check() const noexcept {
  uint64_t used_there = 0;
  uint64_t open_there = 0;
  for (int64_t sub_window = oldest(); sub_window <= newest(); ++sub_window) {
    const SubWindow& at = place(sub_window);
    ASSERT(at.open <= at.used);
    used_there += at.used;
    open_there += at.open;
  }
  ASSERT(used_there == used() && open_there == open());
}

}  // namespace sluice::limiter
