// One meter by hand: the common part of the tests of all kinds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "limiter/meter.hpp"

namespace sluice::limiter {

using api::Ceiling;
using api::Limit;
using api::LimitKind;
using api::Metric;

inline constexpr int64_t ms = base::ns_per_ms;
inline constexpr int64_t s = base::ns_per_s;
inline constexpr int64_t hour = 3'600 * s;
inline constexpr int64_t day = 24 * hour;

inline Limit limit_of(LimitKind kind, uint64_t amount, int64_t period_ms = 60'000) {
  return {.name = "l",
          .metric = Metric::tokens,
          .kind = kind,
          .amount = amount,
          .period_ms = period_ms};
}

inline Limit calendar(api::CalendarUnit unit, uint64_t amount, std::string zone = "UTC") {
  Limit limit = limit_of(LimitKind::calendar, amount, 0);
  limit.unit = unit;
  limit.time_zone = std::move(zone);
  return limit;
}

inline uint32_t words_count(const MeterShape& shape) {
  return head_words(shape) + ring_words(shape);
}

// The words of the only limit of its subject, in one list.
inline Words words_in(std::vector<uint64_t>& list, const MeterShape& shape) {
  return {.heads = list.data(), .rings = list.data() + head_words(shape)};
}

// One subject's usage of one limit; each call has an order of its own.
class Driver {
 public:
  explicit Driver(const Limit& limit, int64_t ns = 0, int64_t wall_ns = 0)
      : shape_(compile(limit)), words_(words_count(shape_)) {
    now_ = {.ns = ns, .wall_ns = wall_ns, .order = 1};
    meter().begin(now_);
  }

  Meter meter() { return {shape_, words_in(words_, shape_)}; }
  const MeterShape& shape() const { return shape_; }
  const Moment& now() const { return now_; }

  Driver& at(int64_t ns, int64_t wall_ns) {
    now_ = {.ns = ns, .wall_ns = wall_ns, .order = now_.order + 1};
    meter().roll(now_);
    meter().check();
    return *this;
  }
  Driver& at(int64_t ns) { return at(ns, now_.wall_ns + (ns - now_.ns)); }
  Driver& wall_at(int64_t wall_ns) { return at(now_.ns + (wall_ns - now_.wall_ns), wall_ns); }

  Charge charge(uint64_t amount, bool open = false) {
    meter().charge(amount, open, now_);
    return {.ns = now_.ns, .order = now_.order};
  }
  // A reservation is settled with less than it was charged.
  void release(uint64_t charged, uint64_t back, const Charge& charge) {
    meter().close(charged, back, charge, now_);
    meter().check();
  }
  uint64_t used() { return meter().used(); }
  uint64_t open() { return meter().open(); }
  bool fits(uint64_t amount) { return meter().fits(amount); }
  int64_t fits_at(uint64_t amount, bool all_refunded = false) {
    return meter().fits_at_ns(amount, all_refunded, now_);
  }
  int64_t empty_at() { return meter().empty_at_ns(now_); }

  void change_to(const Limit& limit) {
    const MeterShape before = shape_;
    std::vector<uint64_t> words = words_;
    shape_ = compile(limit);
    meter().begin(now_);
    meter().take_over(before, words_in(words, before), now_);
  }

 private:
  MeterShape shape_;
  std::vector<uint64_t> words_;
  Moment now_;
};

}  // namespace sluice::limiter
