// What quotas allow, told by the slowest means: every charge is remembered for ever, and each
// question adds them up anew.
// Shape:  a LimitModel per subject and limit, with a log of charges; a QuotaModel for reservations.
//         Where the store may be late by a stated error (rings; gcra after refunds) the model tells
//         the least and the most that may be used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/limit.hpp"
#include "api/quota.hpp"
#include "limiter/calendar.hpp"
#include "limiter/meter.hpp"

namespace sluice::quota {

using ModelReservation = uint64_t;  // 0: of none

struct Bounds {
  uint64_t least = 0;
  uint64_t most = 0;
  bool operator==(const Bounds&) const = default;
};

inline uint64_t model_share(const api::Limit& limit, const api::Amounts& amounts, uint64_t cached) {
  const uint64_t input = amounts.input_tokens - (limit.count_cached ? 0 : cached);
  switch (limit.metric) {
    case api::Metric::requests:
      return amounts.requests;
    case api::Metric::input_tokens:
      return input;
    case api::Metric::output_tokens:
      return amounts.output_tokens;
    case api::Metric::tokens:
      return input + amounts.output_tokens;
    case api::Metric::cost:
      return amounts.cost;
    case api::Metric::concurrency:
      return 1;
  }
  return 0;
}

class LimitModel {
 public:
  LimitModel(const api::Limit& limit, int64_t ns) : limit_(limit), leaked_ns_(ns) {}

  const api::Limit& limit() const { return limit_; }
  void set_amount(const api::Limit& limit, int64_t ns) {
    if (is(api::LimitKind::gcra)) leak(ns);
    if (limit.amount != limit_.amount) exact_ = false;
    limit_ = limit;
  }

  void charge(uint64_t amount, ModelReservation of, bool open, int64_t ns, int64_t wall_ns) {
    charges_.push_back({ns, wall_ns, amount, amount, of, open});
    if (is(api::LimitKind::gcra)) {
      leak(ns);
      queue_.push_back({wide(amount) * period_ns(), charges_.size() - 1});
    }
  }

  // The reservation, which was charged `before`, is settled.
  void replace(ModelReservation of, uint64_t actual, uint64_t before, int64_t ns, int64_t wall_ns) {
    for (size_t index = 0; index < charges_.size(); ++index) {
      Charge& charge = charges_[index];
      if (charge.of != of) continue;
      charge.open = false;
      if (actual >= before) continue;
      const uint64_t back = std::min(charge.amount, before - actual);  // less after a reset
      if (is(api::LimitKind::gcra)) give_back(index, back, ns);
      charge.amount -= back;
    }
    if (actual > before) this->charge(actual - before, 0, false, ns, wall_ns);
  }
  void close(ModelReservation of) {
    for (Charge& charge : charges_) {
      if (charge.of == of) charge.open = false;
    }
  }
  // It was charged before this limit was there, or never: a settle charges what is above.
  bool knows(ModelReservation of) const {
    return std::any_of(charges_.begin(), charges_.end(),
                       [of](const Charge& charge) { return charge.of == of; });
  }
  void reset(int64_t ns) {
    if (is(api::LimitKind::gcra)) leak(ns);
    for (Charge& charge : charges_) {
      if (!charge.open) charge.amount = 0;
    }
    std::erase_if(queue_,
                  [this](const Leaking& leaking) { return !charges_[leaking.charge].open; });
    exact_ = false;
  }

  Bounds used(int64_t ns, int64_t wall_ns) { return sum(ns, wall_ns, false); }
  Bounds open(int64_t ns, int64_t wall_ns) { return sum(ns, wall_ns, true); }

 private:
  __extension__ using Wide = unsigned __int128;
  struct Charge {
    int64_t ns;
    int64_t wall_ns;
    uint64_t amount;
    uint64_t at_first;
    ModelReservation of;
    bool open;
  };
  struct Leaking {
    Wide left;  // units times period
    size_t charge;
  };

  static Wide wide(uint64_t value) { return value; }
  bool is(api::LimitKind kind) const { return limit_.kind == kind; }
  uint64_t period_ns() const { return static_cast<uint64_t>(limit_.period_ms) * 1'000'000; }

  template <typename Counts>
  uint64_t add_up(bool open, Counts counts) const {
    uint64_t total = 0;
    for (const Charge& charge : charges_) {
      if (counts(charge) && (!open || charge.open)) total += charge.amount;
    }
    return total;
  }

  Bounds sum(int64_t ns, int64_t wall_ns, bool open) {
    switch (limit_.kind) {
      case api::LimitKind::slots:
        return {};
      case api::LimitKind::sliding:
      case api::LimitKind::rolling_day: {
        const int64_t period =
            is(api::LimitKind::sliding) ? static_cast<int64_t>(period_ns()) : day;
        const int64_t parts = is(api::LimitKind::sliding) ? 15 : 63;
        const int64_t late = (period + parts - 1) / parts + parts;
        const auto since = [&](int64_t begin) {
          return add_up(open, [&](const Charge& charge) { return charge.ns > begin; });
        };
        return {since(ns - period), since(ns - period - late)};
      }
      case api::LimitKind::fixed: {
        const std::optional<int64_t> anchor = first_use();
        if (!anchor) return {};
        const auto period = static_cast<int64_t>(period_ns());
        const int64_t begin = *anchor + (ns - *anchor) / period * period;
        return both(add_up(open, [&](const Charge& charge) { return charge.ns >= begin; }));
      }
      case api::LimitKind::anchored_day: {
        std::optional<int64_t> begin;
        for (const Charge& charge : charges_) {
          if (charge.at_first > 0 && (!begin || charge.ns >= *begin + day)) begin = charge.ns;
        }
        if (!begin || ns >= *begin + day) return {};
        return both(add_up(open, [&](const Charge& charge) { return charge.ns >= *begin; }));
      }
      case api::LimitKind::calendar: {
        const limiter::Zone& zone = *limiter::find_zone(limit_.time_zone);
        const limiter::Period period = limiter::period_of(zone, limit_.unit, wall_ns);
        return both(add_up(open, [&](const Charge& charge) {
          return charge.wall_ns >= period.begin_ns && charge.wall_ns < period.end_ns;
        }));
      }
      case api::LimitKind::gcra:
        return open ? gcra_open(ns) : gcra_used(ns);
    }
    return {};
  }

  static Bounds both(uint64_t value) { return {value, value}; }

  std::optional<int64_t> first_use() const {
    for (const Charge& charge : charges_) {
      if (charge.at_first > 0) return charge.ns;
    }
    return std::nullopt;
  }

  // First in, first out: as a bucket leaks that has not mixed.
  void leak(int64_t ns) {
    Wide leaked = wide(static_cast<uint64_t>(ns - leaked_ns_)) * limit_.amount;
    if (ns > leaked_ns_ && limit_.ceiling != api::Ceiling::number) queue_.clear();
    leaked_ns_ = ns;
    while (!queue_.empty() && leaked > 0) {
      const Wide part = std::min(leaked, queue_.front().left);
      queue_.front().left -= part;
      leaked -= part;
      if (queue_.front().left == 0) queue_.erase(queue_.begin());
    }
  }
  void give_back(size_t charge, uint64_t amount, int64_t ns) {
    leak(ns);
    exact_ = false;  // the store rounds against whoever gives back
    for (Leaking& leaking : queue_) {
      if (leaking.charge == charge)
        leaking.left -= std::min(leaking.left, wide(amount) * period_ns());
    }
  }
  // The store may think that more is left, never less.
  Bounds gcra_used(int64_t ns) {
    leak(ns);
    Wide total = 0;
    for (const Leaking& leaking : queue_) total += leaking.left;
    const auto least = static_cast<uint64_t>((total + period_ns() - 1) / period_ns());
    if (exact_) return both(least);
    return {least, UINT64_MAX};
  }
  Bounds gcra_open(int64_t) { return {0, UINT64_MAX}; }

  static constexpr int64_t day = 24LL * 3600 * 1'000'000'000;
  api::Limit limit_;
  std::vector<Charge> charges_;
  std::vector<Leaking> queue_;
  int64_t leaked_ns_ = 0;
  bool exact_ = true;
};

}  // namespace sluice::quota
