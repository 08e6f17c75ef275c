#include "limiter/meter.hpp"

#include "base/assert.hpp"
#include "limiter/calendar.hpp"

namespace sluice::limiter {

using api::LimitKind;

void Meter::begin(const Moment& now) noexcept {
  static_assert(gcra_words == head_words_max);
  std::fill_n(words_, head_words(shape_), 0);
  std::fill_n(ring_, ring_words(shape_), 0);
  if (shape_.kind == LimitKind::concurrency) return;
  if (is_ring()) {
    ring().begin(now);
  } else {
    words_[since_at] = now.order;
  }
  if (is_gcra()) {
    set_time(leaked_at, now.ns);
    set_time(changed_at, ring().oldest() - 1);
  }
  if (shape_.kind == LimitKind::calendar) roll_calendar(now);
}

void Meter::take_over(const MeterShape& before, const Words& words, const Moment& now) noexcept {
  Meter old(before, words);
  if (is_gcra()) old.roll_bucket(now);
  std::copy_n(old.words_, head_words(shape_), words_);
  std::copy_n(old.ring_, ring_words(shape_), ring_);
  if (!is_gcra()) return;
  const bool was_word = before.ceiling != api::Ceiling::number;
  // If the word stood for the whole ring, the present number counts as if it had.
  const bool word_filled_ring = was_word && time(changed_at) < ring().oldest();
  if (shape_.amount != before.amount && !word_filled_ring) remember_amount(before.amount);
  // Usage that was counted without a number fills the bucket at most.
  if (was_word) set_level(level_at, std::min(level_of_ring(false, now), scaled(shape_.amount)));
}

// The ring has leaked at the previous amount, at the least of them if there were several within it.
void Meter::remember_amount(uint64_t before) noexcept {
  if (time(changed_at) == ring().newest()) {
    words_[changing_amount_at] = std::min(words_[changing_amount_at], shape_.amount);
    return;
  }
  const bool was_steady = time(changed_at) < ring().oldest();
  words_[slow_amount_at] =
      was_steady ? before : std::min({before, words_[changing_amount_at], words_[slow_amount_at]});
  words_[changing_amount_at] = std::min(before, shape_.amount);
  set_time(changed_at, ring().newest());
}

// A window has ended: charges from before `order` are not in this one.
void Meter::forget(uint64_t order) noexcept {
  words_[used_at] = 0;
  words_[open_at] = 0;
  words_[since_at] = order;
}

// A fixed window continues in phase; an anchored day begins with the next use.
void Meter::roll_window(const Moment& now) noexcept {
  const int64_t over_ns = (now.ns - time(end_at)) % shape_.period_ns;
  const bool in_phase = shape_.kind == LimitKind::fixed;
  set_time(end_at, in_phase ? now.ns - over_ns + shape_.period_ns : 0);
  forget(now.order);
}

void Meter::roll_calendar(const Moment& now) noexcept {
  set_time(end_at, period_of(*shape_.zone, shape_.unit, now.wall_ns).end_ns);
  forget(now.order);
}

void Meter::roll_bucket(const Moment& now) noexcept {
  leak(now);
  if (now.ns < (ring().newest() + 1) * shape_.width_ns) return;
  move_ring_level(now.ns / shape_.width_ns);
  ring().roll(now);
}

void Meter::close_bucket(uint64_t amount, uint64_t refund, const Charge& charge,
                         const Moment& now) noexcept {
  roll_bucket(now);
  if (ring().close(amount, refund, charge, now) > 0) lower_level(now);
}

void Meter::leak(const Moment& now) noexcept {
  const auto elapsed = static_cast<uint64_t>(now.ns - time(leaked_at));
  set_time(leaked_at, now.ns);
  if (level() > 0) set_level(level_at, saturating_subtract(level(), Wide{elapsed} * shape_.amount));
}

// Moves the ring's level to the beginning of the ring that ends with this sub-window.
void Meter::move_ring_level(int64_t newest) noexcept {
  const int64_t begin = newest - shape_.ring_mask;
  const int64_t charged_end = std::min(begin, ring().newest() + 1);
  Wide level = level_of(ring_level_at);
  for (int64_t sub_window = ring().oldest(); sub_window < charged_end; ++sub_window) {
    level = saturating_subtract(level, leak_of(sub_window, shape_.width_ns)) +
            scaled(ring().place(sub_window).used);
  }
  const int64_t idle_ns = (begin - charged_end) * shape_.width_ns;
  set_level(ring_level_at, saturating_subtract(level, leak_of(charged_end, idle_ns)));
}

// How much leaks at most in `ns` of a sub-window, or of those from it on.
Meter::Wide Meter::leak_of(int64_t sub_window, int64_t ns) const noexcept {
  uint64_t amount = shape_.amount;
  if (sub_window == time(changed_at)) amount = words_[changing_amount_at];
  if (sub_window < time(changed_at)) amount = words_[slow_amount_at];
  return Wide{static_cast<uint64_t>(ns)} * amount;
}

// The level that the ring's charges have made, each taken as late as its sub-window allows: never
// below that of the charges themselves, and above it by at most what leaks in a sub-window.
Meter::Wide Meter::level_of_ring(bool all_refunded, const Moment& now) const noexcept {
  const int64_t newest = ring().newest();
  Wide level = level_of(ring_level_at);
  for (int64_t sub_window = ring().oldest(); sub_window <= newest; ++sub_window) {
    const RingMeter::SubWindow& at = ring().place(sub_window);
    const bool is_over = sub_window < newest;
    const int64_t ns = is_over ? shape_.width_ns : now.ns - newest * shape_.width_ns;
    level = saturating_subtract(level, leak_of(sub_window, ns)) +
            scaled(at.used - (all_refunded ? at.open : 0));
  }
  return level;
}

// After a refund.
void Meter::lower_level(const Moment& now) noexcept {
  set_level(level_at, std::min(level(), level_of_ring(false, now)));
}

void Meter::set_level(int word, Wide level) noexcept {
  words_[word] = static_cast<uint64_t>(level);
  words_[word + 1] = static_cast<uint64_t>(level >> 64);
}

// Returns how much it added: the level stops at amount_max, and the ring's sum at its word's end.
uint64_t Meter::fill_bucket(uint64_t amount) noexcept {
  const Wide room = saturating_subtract(scaled(limits::amount_max), level());
  if (scaled(amount) > room) amount = static_cast<uint64_t>(room / scaled(1));
  amount = std::min(amount, UINT64_MAX - words_[used_at]);
  set_level(level_at, level() + scaled(amount));
  return amount;
}

uint64_t Meter::used() const noexcept {
  if (shape_.kind == LimitKind::concurrency) return 0;
  if (!is_bucket()) return words_[used_at];
  const auto period = static_cast<uint64_t>(shape_.period_ns);
  return static_cast<uint64_t>((level() + period - 1) / period);
}

uint64_t Meter::open() const noexcept {
  if (shape_.kind == LimitKind::concurrency) return 0;
  return is_bucket() ? std::min(words_[open_at], used()) : words_[open_at];
}

void Meter::reset(const Moment& now) noexcept {
  if (shape_.kind == LimitKind::concurrency) return;
  if (is_ring()) {
    ring().reset();
  } else {
    words_[used_at] = words_[open_at];
  }
  if (!is_gcra()) return;
  set_level(ring_level_at, 0);  // what is open there was charged more than a period ago
  lower_level(now);
}

int64_t Meter::ns_to_leak(Wide level) const noexcept {
  if (level == 0) return 0;
  if (shape_.amount == 0) return base::never_ns / 2;
  const Wide ns = level / shape_.amount;
  return static_cast<int64_t>(std::min<Wide>(ns, base::never_ns / 2));
}

// In monotonic time; now, for a window that has not begun.
int64_t Meter::end_ns(const Moment& now) const noexcept {
  if (shape_.kind != LimitKind::calendar) return std::max(time(end_at), now.ns);
  return now.ns + (time(end_at) - now.wall_ns);
}

int64_t Meter::fits_at_ns(uint64_t amount, bool all_refunded, const Moment& now) const noexcept {
  if (shape_.ceiling == api::Ceiling::unlimited) return now.ns;
  if (shape_.ceiling == api::Ceiling::block || amount > shape_.amount) return base::never_ns;
  if (shape_.kind == LimitKind::concurrency) return now.ns;
  if (is_gcra()) {
    const Wide there = all_refunded ? std::min(level(), level_of_ring(true, now)) : level();
    const Wide wanted = there + scaled(amount);
    const Wide room = scaled(shape_.amount);
    if (wanted <= room) return now.ns;
    return shape_.amount == 0 ? base::never_ns : now.ns + ns_to_leak(wanted - room - 1) + 1;
  }
  const uint64_t there = words_[used_at] - (all_refunded ? words_[open_at] : 0);
  if (there <= shape_.amount - amount) return now.ns;
  return is_ring() ? ring().fits_at_ns(amount, all_refunded) : end_ns(now);
}

int64_t Meter::empty_at_ns(const Moment& now) const noexcept {
  if (used() == 0) return now.ns;
  if (is_bucket()) return now.ns + ns_to_leak(level());
  if (is_ring()) return ring().empty_at_ns(now);
  return end_ns(now);
}

void Meter::check() const noexcept {
  if (shape_.kind == LimitKind::concurrency) return;
  ASSERT(words_[open_at] <= words_[used_at]);
  if (is_ring()) ring().check();
}

}  // namespace sluice::limiter
