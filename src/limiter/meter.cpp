#include "limiter/meter.hpp"

#include "base/assert.hpp"

namespace sluice::limiter {
namespace {

using api::LimitKind;

constexpr int64_t day_ns = 24LL * 3600 * base::ns_per_s;

uint32_t ring_places(LimitKind kind) noexcept {
  if (kind == LimitKind::sliding) return sliding_places;
  return kind == LimitKind::rolling_day ? rolling_day_places : 0;
}

int64_t period_ns(const api::Limit& limit) noexcept {
  const bool is_day = limit.kind == LimitKind::anchored_day || limit.kind == LimitKind::rolling_day;
  return is_day ? day_ns : limit.period_ms * base::ns_per_ms;
}

}  // namespace

MeterShape compile(const api::Limit& limit) noexcept {
  MeterShape shape{.metric = limit.metric,
                   .kind = limit.kind,
                   .ceiling = limit.ceiling,
                   .unit = limit.unit,
                   .count_cached = limit.count_cached,
                   .amount = limit.amount,
                   .period_ns = period_ns(limit)};
  if (const uint32_t places = ring_places(limit.kind); places != 0) {
    shape.ring_mask = static_cast<uint16_t>(places - 1);
    shape.width_ns = (shape.period_ns + shape.ring_mask - 1) / shape.ring_mask;
  }
  // A bucket without a number leaks as fast as can be: at no rate it would never be empty again.
  const bool is_word = limit.ceiling != api::Ceiling::number;
  if (limit.kind == LimitKind::gcra && is_word) shape.amount = limits::amount_max;
  if (limit.kind == LimitKind::calendar) shape.zone = find_zone(limit.time_zone);
  return shape;
}

uint32_t head_words(const MeterShape& shape) noexcept {
  if (shape.kind == LimitKind::slots) return 0;
  return shape.kind == LimitKind::gcra ? 6 : 4;
}

uint32_t ring_words(const MeterShape& shape) noexcept {
  return 2 * ring_places(shape.kind);
}

void Meter::begin(const Moment& now) noexcept {
  std::fill_n(words_, head_words(shape_), 0);
  std::fill_n(ring_, ring_words(shape_), 0);
  if (shape_.kind == LimitKind::slots) return;
  words_[since_at] = now.order;
  if (is_ring()) set_time(newest_at, now.ns / shape_.width_ns);
  if (is_gcra()) set_time(leaked_at, now.ns);
  if (shape_.kind == LimitKind::calendar) roll_calendar(now);
}

void Meter::take_over(const MeterShape& before, uint64_t* words, const Moment& now) noexcept {
  Meter old(before, words);
  if (is_gcra()) old.leak(now);
  std::copy_n(old.words_, head_words(shape_), words_);
  std::copy_n(old.ring_, ring_words(shape_), ring_);
  if (!is_gcra()) return;
  if (before.amount == 0) {
    // Nobody knows when what is there would have leaked away: no refund finds it any more.
    words_[gcra_since_at] = now.order;
    words_[gcra_open_at] = 0;
    return;
  }
  // What leaks faster is gone earlier than was foreseen when it was charged.
  if (shape_.amount <= before.amount) return;
  const int64_t sooner_ns = old.leaks_in_ns(level()) - leaks_in_ns(level());
  words_[ahead_at] += static_cast<uint64_t>(sooner_ns) + 1;
}

// A window has ended: what was charged before `order` is not in this one.
void Meter::forget(uint64_t order) noexcept {
  words_[used_at] = 0;
  words_[open_at] = 0;
  words_[since_at] = order;
}

void Meter::roll_ring(const Moment& now) noexcept {
  const int64_t newest = now.ns / shape_.width_ns;
  const int64_t places = int64_t{shape_.ring_mask} + 1;
  const int64_t first = std::max(time(newest_at) + 1, newest - places + 1);
  for (int64_t sub_window = first; sub_window <= newest; ++sub_window) {
    Place& forgotten = place(sub_window);
    words_[used_at] -= forgotten.used;
    words_[open_at] -= forgotten.open;
    forgotten = {};
  }
  set_time(newest_at, newest);
}

void Meter::roll_calendar(const Moment& now) noexcept {
  set_time(end_at, period_of(*shape_.zone, shape_.unit, now.wall_ns).end_ns);
  forget(now.order);
}

void Meter::leak(const Moment& now) noexcept {
  const auto elapsed = static_cast<uint64_t>(now.ns - time(leaked_at));
  set_time(leaked_at, now.ns);
  const Wide before = level();
  if (before == 0) return;
  const Wide leaked = Wide{elapsed} * shape_.amount;
  set_level(before > leaked ? before - leaked : 0);
}

void Meter::set_level(Wide level) noexcept {
  words_[level_at] = static_cast<uint64_t>(level);
  words_[level_high_at] = static_cast<uint64_t>(level >> 64);
}

uint64_t Meter::used() const noexcept {
  if (shape_.kind == LimitKind::slots) return 0;
  if (!is_gcra()) return words_[used_at];
  const auto period = static_cast<uint64_t>(shape_.period_ns);
  return static_cast<uint64_t>((level() + period - 1) / period);
}

uint64_t Meter::open() const noexcept {
  if (shape_.kind == LimitKind::slots) return 0;
  return is_gcra() ? std::min(words_[gcra_open_at], used()) : words_[open_at];
}

int64_t Meter::charge_bucket(uint64_t amount, bool is_open, const Moment& now) noexcept {
  const Wide room = scaled(limits::amount_max) - std::min(level(), scaled(limits::amount_max));
  if (scaled(amount) > room) amount = static_cast<uint64_t>(room / scaled(1));
  if (is_open) words_[gcra_open_at] += amount;
  set_level(level() + scaled(amount));
  const auto drained = static_cast<uint64_t>(now.ns) + static_cast<uint64_t>(leaks_in_ns(level()));
  return static_cast<int64_t>(drained + words_[ahead_at]);
}

// Of a gcra. What was charged before it leaks first: until drained_ns some of it is still there. A
// refund brings forward when all that was charged before it, and by caution what was charged behind
// it, leaks away.
void Meter::give_back(uint64_t amount, const Charge& charge, const Moment& now) noexcept {
  // Since the amount is zero nothing leaks, and time tells nothing: what was charged is there.
  if (shape_.amount == 0) return bring_forward(std::min(level(), scaled(amount)));
  // Both count on for ever, and may wrap around: only their difference counts.
  const uint64_t past = words_[ahead_at] + static_cast<uint64_t>(now.ns);
  const auto difference = static_cast<int64_t>(static_cast<uint64_t>(charge.drained_ns) - past);
  const int64_t left_ns = std::max<int64_t>(difference, 0);
  const Wide left = Wide{static_cast<uint64_t>(left_ns)} * shape_.amount;
  bring_forward(std::min({level(), left, scaled(amount)}));
}

void Meter::reset() noexcept {
  if (shape_.kind == LimitKind::slots) return;
  if (is_gcra()) return bring_forward(level() - std::min(level(), scaled(words_[gcra_open_at])));
  words_[used_at] = words_[open_at];
  if (!is_ring()) return;
  for (uint32_t index = 0; index <= shape_.ring_mask; ++index)
    place(index).used = place(index).open;
}

// Takes so much of the level away that has not leaked.
void Meter::bring_forward(Wide taken) noexcept {
  if (taken == 0) return;
  set_level(level() - taken);
  if (shape_.amount == 0) return;  // nothing leaks
  words_[ahead_at] += static_cast<uint64_t>(leaks_in_ns(taken)) + 1;
}

int64_t Meter::leaks_in_ns(Wide level) const noexcept {
  if (level == 0) return 0;
  if (shape_.amount == 0) return base::never_ns / 2;
  const Wide ns = level / shape_.amount;
  return static_cast<int64_t>(std::min<Wide>(ns, base::never_ns / 2));
}

// In monotonic time; what never began has no end.
int64_t Meter::end_ns(const Moment& now) const noexcept {
  if (shape_.kind != LimitKind::calendar) return std::max(time(end_at), now.ns);
  return now.ns + (time(end_at) - now.wall_ns);
}

int64_t Meter::fits_at_ns(uint64_t amount, bool all_refunded, const Moment& now) const noexcept {
  if (shape_.ceiling == api::Ceiling::unlimited) return now.ns;
  if (shape_.ceiling == api::Ceiling::block || amount > shape_.amount) return base::never_ns;
  if (shape_.kind == LimitKind::slots) return now.ns;
  if (is_gcra()) {
    Wide there = level();
    if (all_refunded) there -= std::min(there, scaled(words_[gcra_open_at]));
    const Wide wanted = there + scaled(amount);
    const Wide room = scaled(shape_.amount);
    if (wanted <= room) return now.ns;
    return shape_.amount == 0 ? base::never_ns : now.ns + leaks_in_ns(wanted - room - 1) + 1;
  }
  const uint64_t there = words_[used_at] - (all_refunded ? words_[open_at] : 0);
  if (there <= shape_.amount - amount) return now.ns;
  return is_ring() ? ring_fits_at_ns(amount, all_refunded) : end_ns(now);
}

// It does not fit now.
int64_t Meter::ring_fits_at_ns(uint64_t amount, bool all_refunded) const noexcept {
  const int64_t places = int64_t{shape_.ring_mask} + 1;
  const int64_t newest = time(newest_at);
  uint64_t there = words_[used_at] - (all_refunded ? words_[open_at] : 0);
  for (int64_t sub_window = newest - places + 1; sub_window <= newest; ++sub_window) {
    const Place& at = place(sub_window);
    there -= at.used - (all_refunded ? at.open : 0);
    if (there <= shape_.amount - amount) return (sub_window + places) * shape_.width_ns;
  }
  ASSERT(false);
}

int64_t Meter::ring_empty_at_ns(const Moment& now) const noexcept {
  const int64_t places = int64_t{shape_.ring_mask} + 1;
  for (int64_t back = 0; back < places; ++back) {
    const int64_t sub_window = time(newest_at) - back;
    if (place(sub_window).used > 0) return (sub_window + places) * shape_.width_ns;
  }
  return now.ns;
}

int64_t Meter::empty_at_ns(const Moment& now) const noexcept {
  if (used() == 0) return now.ns;
  if (is_ring()) return ring_empty_at_ns(now);
  if (is_gcra()) return now.ns + leaks_in_ns(level());
  return end_ns(now);
}

void Meter::check() const noexcept {
  if (shape_.kind == LimitKind::slots || is_gcra()) return;
  ASSERT(words_[open_at] <= words_[used_at]);
  if (!is_ring()) return;
  uint64_t used = 0;
  uint64_t open = 0;
  for (uint32_t index = 0; index <= shape_.ring_mask; ++index) {
    ASSERT(place(index).open <= place(index).used);
    used += place(index).used;
    open += place(index).open;
  }
  ASSERT(used == words_[used_at] && open == words_[open_at]);
}

}  // namespace sluice::limiter
