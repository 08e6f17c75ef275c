// Goal: a ring counts what was charged in as many sub-windows as it has places, to the unit.
// Method: calls at random, against a list of all charges; and by hand.
#include "limiter/ring_meter.hpp"

#include <gtest/gtest.h>

#include <random>

#include "unit/limiter/meter_driver.hpp"

namespace sluice::limiter {
namespace {

// Every charge with the sub-window that it lies in.
class Model {
 public:
  explicit Model(const MeterShape& shape) : shape_(shape) {}

  struct Entry {
    int64_t sub_window;
    uint64_t used;
    uint64_t open;
  };
  size_t charge(uint64_t amount) {
    entries_.push_back({now_, amount, amount});
    return entries_.size() - 1;
  }
  void close(size_t at, uint64_t back) {
    Entry& entry = entries_[at];
    if (entry.sub_window < now_ - shape_.ring_mask) return;
    entry.open = 0;
    entry.used -= std::min(back, entry.used);
  }
  void reset() {
    for (Entry& entry : entries_) entry.used = entry.open;
  }
  void at(int64_t ns) { now_ = ns / shape_.width_ns; }

  uint64_t used(int64_t later = 0) const { return sum(&Entry::used, later); }
  uint64_t open() const { return sum(&Entry::open, 0); }
  // In sub-windows from now on; it does not fit now.
  int64_t fits_in(uint64_t amount) const {
    int64_t later = 0;
    while (used(later) > shape_.amount - amount) ++later;
    return later;
  }
  int64_t empty_in() const {
    int64_t later = 0;
    while (used(later) > 0) ++later;
    return later;
  }

 private:
  uint64_t sum(uint64_t Entry::*part, int64_t later) const {
    uint64_t total = 0;
    for (const Entry& entry : entries_) {
      if (entry.sub_window >= now_ + later - shape_.ring_mask) total += entry.*part;
    }
    return total;
  }

  const MeterShape& shape_;
  int64_t now_ = 0;
  std::vector<Entry> entries_;
};

class RandomCalls {
 public:
  explicit RandomCalls(LimitKind kind)
      : shape_(compile(limit_of(kind, 1'000))), words_(words_count(shape_)), model_(shape_) {
    meter().begin(now_);
  }

  void step() {
    // Most often within a few sub-windows, now and then behind all of them.
    const auto width = static_cast<uint64_t>(shape_.width_ns);
    const int64_t places = random_() % 50 == 0 ? 2 * (shape_.ring_mask + 1) : 1;
    now_ = {.ns = now_.ns + places * static_cast<int64_t>(random_() % width),
            .order = now_.order + 1};
    model_.at(now_.ns);
    meter().roll(now_);
    const uint64_t amount = random_() % 300;
    ASSERT_EQ(meter().fits(amount), model_.used() + amount <= shape_.amount);
    if (meter().fits(amount)) {
      meter().charge(amount, true);
      open_.push_back({model_.charge(amount), amount, {.ns = now_.ns, .order = now_.order}});
    } else {
      const int64_t fits_at = meter().fits_at_ns(amount, false) / shape_.width_ns;
      ASSERT_EQ(fits_at, now_.ns / shape_.width_ns + model_.fits_in(amount));
    }
    if (!open_.empty() && random_() % 2 == 0) end_one();
    if (random_() % 200 == 0) {
      meter().reset();
      model_.reset();
    }
    ASSERT_EQ(meter().used(), model_.used());
    ASSERT_EQ(meter().open(), model_.open());
    meter().check();
    if (meter().used() == 0) return;
    ASSERT_EQ(meter().empty_at_ns(now_) / shape_.width_ns,
              now_.ns / shape_.width_ns + model_.empty_in());
  }

 private:
  struct Open {
    size_t in_model;
    uint64_t amount;
    Charge charge;
  };

  void end_one() {
    const auto at = open_.begin() + static_cast<int64_t>(random_() % open_.size());
    const uint64_t back = random_() % (at->amount + 1);
    meter().close(at->amount, back, at->charge, now_);
    model_.close(at->in_model, back);
    open_.erase(at);
  }
  RingMeter meter() { return {shape_, words_in(words_, shape_)}; }

  std::mt19937_64 random_{1};
  MeterShape shape_;
  std::vector<uint64_t> words_;
  Model model_;
  Moment now_{.order = 1};
  std::vector<Open> open_;
};

TEST(RingMeter, counts_as_a_list_of_all_charges_does) {
  for (const LimitKind kind : {LimitKind::sliding, LimitKind::rolling_day}) {
    RandomCalls calls(kind);
    for (int step = 0; step < 3'000 && !testing::Test::HasFailure(); ++step) calls.step();
  }
}

// A ring by hand.
class Ring {
 public:
  explicit Ring(LimitKind kind) : shape_(compile(limit_of(kind, 1'000))) { ring().begin(now_); }

  void at(int64_t ns) {
    now_ = {.ns = ns, .order = now_.order + 1};
    ring().roll(now_);
  }
  Charge charge(uint64_t amount) {
    ring().charge(amount, true);
    return {.ns = now_.ns, .order = now_.order};
  }
  uint64_t close(uint64_t amount, uint64_t back, const Charge& charge) {
    return ring().close(amount, back, charge, now_);
  }
  RingMeter ring() { return {shape_, words_in(words_, shape_)}; }

 private:
  MeterShape shape_;
  Moment now_{.order = 1};
  std::vector<uint64_t> words_ = std::vector<uint64_t>(words_count(shape_));
};

TEST(RingMeter, closes_a_charge_before_and_after_a_roll_alike) {
  Ring early(LimitKind::sliding);
  Ring late(LimitKind::sliding);
  for (Ring* const ring : {&early, &late}) ring->at(s);
  const Charge charge = early.charge(100);
  late.charge(100);
  late.at(30 * s);  // rolled before the end, and after it
  late.close(100, 60, charge);
  early.close(100, 60, charge);
  early.at(30 * s);
  EXPECT_EQ(early.ring().used(), 40U);
  EXPECT_EQ(late.ring().used(), 40U);
  EXPECT_EQ(early.ring().open(), 0U);
}

TEST(RingMeter, without_a_charge_is_empty_now) {
  Ring ring(LimitKind::sliding);
  ring.at(30 * s);
  EXPECT_EQ(ring.ring().empty_at_ns({.ns = 30 * s}), 30 * s);
}

TEST(RingMeter, reports_how_much_it_refunded) {
  Ring ring(LimitKind::sliding);
  ring.at(s);
  const Charge charge = ring.charge(100);
  EXPECT_EQ(ring.close(100, 60, charge), 60U);
  ring.at(200 * s);
  EXPECT_EQ(ring.close(100, 60, charge), 0U);
}

}  // namespace
}  // namespace sluice::limiter
