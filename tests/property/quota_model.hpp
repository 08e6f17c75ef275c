// The usage that quotas allow, computed by the slowest means: every charge is remembered for ever,
// and each question adds them up anew.
// Shape:  a LimitModel per subject and limit, with a log of charges; a QuotaModel for reservations.
//         Where the store may be off by a stated error (rings; gcra after refunds) the model gives
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
  LimitModel(const api::Limit& limit, int64_t ns) : limit_(limit), rates_{{ns, rate(limit)}} {}

  const api::Limit& limit() const { return limit_; }
  void set_amount(const api::Limit& limit, int64_t ns) {
    if (rate(limit) != rate(limit_)) ++changes_;
    if (limit_.ceiling != api::Ceiling::number) was_word_ = true;
    rates_.push_back({ns, rate(limit)});
    limit_ = limit;
  }

  void charge(uint64_t amount, ModelReservation of, bool open, int64_t ns, int64_t wall_ns) {
    charges_.push_back({ns, wall_ns, amount, amount, of, open});
  }
  // Without being asked: it may exceed the limit.
  void record(uint64_t amount, int64_t ns, int64_t wall_ns) {
    charges_.push_back({ns, wall_ns, amount, amount, 0, false, false});
  }

  // The reservation, which was charged `before`, is settled.
  void replace(ModelReservation of, uint64_t actual, uint64_t before, int64_t ns, int64_t wall_ns) {
    for (Charge& charge : charges_) {
      if (charge.of != of) continue;
      charge.open = false;
      if (actual >= before || is_leaked_long_ago(charge, ns)) continue;
      const uint64_t refund = std::min(charge.amount, before - actual);  // less after a reset
      charge.amount -= refund;
      if (refund > 0) has_refunds_ = true;
    }
    if (actual > before) record(actual - before, ns, wall_ns);
  }
  void close(ModelReservation of) {
    for (Charge& charge : charges_) {
      if (charge.of == of) charge.open = false;
    }
  }
  // False: it was charged before this limit was there, or never; a settle charges the excess.
  bool knows(ModelReservation of) const {
    return std::any_of(charges_.begin(), charges_.end(),
                       [of](const Charge& charge) { return charge.of == of; });
  }
  // `of_all`: the store resets this one when it reads it next. Open usage stays, except charges
  // from more than a period before that.
  void reset(int64_t ns, bool of_all) {
    for (Charge& charge : charges_) {
      if (!charge.open || is_leaked_long_ago(charge, ns)) charge.amount = 0;
      charge.stays_or_not |= of_all;
    }
    has_refunds_ = true;
  }

  Bounds used(int64_t ns, int64_t wall_ns) { return sum(ns, wall_ns, Part::all); }
  Bounds open(int64_t ns, int64_t wall_ns) { return sum(ns, wall_ns, Part::open); }
  // What was not recorded.
  Bounds admitted(int64_t ns, int64_t wall_ns) { return sum(ns, wall_ns, Part::admitted); }

 private:
  __extension__ using Wide = unsigned __int128;
  enum class Part : uint8_t { all, open, admitted };
  struct Charge {
    int64_t ns;
    int64_t wall_ns;
    uint64_t amount;
    uint64_t at_first;
    ModelReservation of;
    bool open;
    bool admitted = true;
    bool stays_or_not = false;

    bool is_in(Part part) const {
      return part == Part::all || (part == Part::open ? open : admitted);
    }
  };
  struct Rate {
    int64_t since_ns;
    uint64_t amount;  // leaks in a period
  };

  static Wide wide(uint64_t value) { return value; }
  static uint64_t rate(const api::Limit& limit) {
    return limit.ceiling == api::Ceiling::number ? limit.amount : limits::amount_max;
  }
  bool is(api::LimitKind kind) const { return limit_.kind == kind; }
  uint64_t period_ns() const { return static_cast<uint64_t>(limit_.period_ms) * 1'000'000; }

  template <typename Counts>
  uint64_t add_up(Part part, Counts counts) const {
    uint64_t total = 0;
    for (const Charge& charge : charges_) {
      if (counts(charge) && charge.is_in(part)) total += charge.amount;
    }
    return total;
  }

  Bounds sum(int64_t ns, int64_t wall_ns, Part part) {
    switch (limit_.kind) {
      case api::LimitKind::concurrency:
        return {};
      case api::LimitKind::sliding:
      case api::LimitKind::rolling_day:
        return in_period(ns, part, is(api::LimitKind::sliding) ? 15 : 63);
      case api::LimitKind::fixed: {
        const std::optional<int64_t> anchor = first_use();
        if (!anchor) return {};
        const auto period = static_cast<int64_t>(period_ns());
        const int64_t begin = *anchor + (ns - *anchor) / period * period;
        return both(add_up(part, [&](const Charge& charge) { return charge.ns >= begin; }));
      }
      case api::LimitKind::anchored_day: {
        std::optional<int64_t> begin;
        for (const Charge& charge : charges_) {
          if (charge.at_first > 0 && (!begin || charge.ns >= *begin + day)) begin = charge.ns;
        }
        if (!begin || ns >= *begin + day) return {};
        return both(add_up(part, [&](const Charge& charge) { return charge.ns >= *begin; }));
      }
      case api::LimitKind::calendar: {
        const limiter::Zone& zone = *limiter::find_zone(limit_.time_zone);
        const limiter::Period period = limiter::period_of(zone, limit_.unit, wall_ns);
        return both(add_up(part, [&](const Charge& charge) {
          return charge.wall_ns >= period.begin_ns && charge.wall_ns < period.end_ns;
        }));
      }
      case api::LimitKind::gcra:
        if (limit_.ceiling != api::Ceiling::number) return in_period(ns, part, 15);
        if (part == Part::admitted) return both(units(gcra_level(ns, part, false)));
        return part == Part::open ? gcra_open(ns) : gcra_used(ns);
    }
    return {};
  }

  static Bounds both(uint64_t value) { return {value, value}; }

  // Of a ring with `parts` sub-windows in the period.
  Bounds in_period(int64_t ns, Part part, int64_t parts) const {
    const bool is_day = is(api::LimitKind::rolling_day);
    const int64_t period = is_day ? day : static_cast<int64_t>(period_ns());
    const int64_t late = (period + parts - 1) / parts + parts;
    const auto since = [&](int64_t begin) {
      return add_up(part, [&](const Charge& charge) { return charge.ns > begin; });
    };
    return {since(ns - period), since(ns - period - late)};
  }

  std::optional<int64_t> first_use() const {
    for (const Charge& charge : charges_) {
      if (charge.at_first > 0) return charge.ns;
    }
    return std::nullopt;
  }

  // Units times period.
  Wide leaks_between(int64_t begin, int64_t end) const {
    Wide leaked = 0;
    for (size_t index = 0; index < rates_.size(); ++index) {
      const int64_t next = index + 1 < rates_.size() ? rates_[index + 1].since_ns : INT64_MAX;
      const int64_t from = std::max(begin, rates_[index].since_ns);
      const int64_t until = std::min(end, next);
      if (from < until) leaked += wide(static_cast<uint64_t>(until - from)) * rates_[index].amount;
    }
    return leaked;
  }
  // A refunded charge was never made.
  Wide gcra_level(int64_t ns, Part part, bool without_doubt) const {
    Wide level = 0;
    int64_t at = rates_.front().since_ns;
    const auto leak = [&](int64_t until) {
      const Wide leaked = leaks_between(at, until);
      level = level > leaked ? level - leaked : 0;
      at = until;
    };
    for (const Charge& charge : charges_) {
      leak(charge.ns);
      if (!charge.is_in(part) || (charge.stays_or_not && without_doubt)) continue;
      level += wide(charge.amount) * period_ns();
    }
    leak(ns);
    return level;
  }
  uint64_t units(Wide level) const {
    return static_cast<uint64_t>((level + period_ns() - 1) / period_ns());
  }
  // With the stated error of the store: the leak of a sub-window.
  Bounds gcra_used(int64_t ns) const {
    const Wide level = gcra_level(ns, Part::all, false);
    const Wide least = gcra_level(ns, Part::all, true);
    if (was_word_) return {0, UINT64_MAX};
    if (!has_refunds_) return both(units(level));
    if (changes_ > 1) return {units(least), UINT64_MAX};
    // The sub-window in which the amount changed counts with the smaller one.
    uint64_t fastest = 0;
    for (const Rate& rate : rates_) fastest = std::max(fastest, rate.amount);
    const Wide late = wide(fastest) * static_cast<uint64_t>(width_ns()) * (1U + changes_);
    return {units(least), units(level + late)};
  }
  Bounds gcra_open(int64_t ns) const {
    const uint64_t open = add_up(
        Part::open, [this, ns](const Charge& charge) { return !is_leaked_long_ago(charge, ns); });
    const Bounds used = gcra_used(ns);
    return {std::min(open, used.least), std::min(open, used.most)};
  }
  int64_t width_ns() const { return (static_cast<int64_t>(period_ns()) + 14) / 15; }
  // Of a gcra: more than a period ago.
  bool is_leaked_long_ago(const Charge& charge, int64_t ns) const {
    return is(api::LimitKind::gcra) && ns / width_ns() - charge.ns / width_ns() > 15;
  }

  static constexpr int64_t day = 24LL * 3600 * 1'000'000'000;
  api::Limit limit_;
  std::vector<Charge> charges_;
  std::vector<Rate> rates_;
  bool has_refunds_ = false;
  unsigned changes_ = 0;   // of the amount
  bool was_word_ = false;  // then it began with the usage, or a full bucket
};

}  // namespace sluice::quota
