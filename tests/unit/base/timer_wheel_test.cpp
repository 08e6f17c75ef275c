// A timer is due exactly when its time has come, wherever in the wheel it lay and however the clock
// jumps. Method: single cases at the levels' edges, then random operations against a sorted map.
#include "base/timer_wheel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace sluice::base {
namespace {

std::vector<uint64_t> due_owners(TimerWheel& wheel) {
  std::vector<uint64_t> owners;
  while (const Timer* timer = wheel.pop_due()) owners.push_back(timer->owner);
  return owners;
}

TEST(TimerWheel, is_never_early_nor_late) {
  const int64_t level = 256;
  for (const int64_t start_ms : {int64_t{0}, int64_t{255}, level * level - 1, int64_t{1} << 40}) {
    for (const int64_t wait_ms : {int64_t{1}, level - 1, level, level + 1, level * level - 1,
                                  level * level, level * level + 1, level * level * level,
                                  int64_t{1} << 32, (int64_t{1} << 32) + 1, int64_t{3} << 33}) {
      TimerWheel wheel(start_ms);
      Timer timer(7);
      wheel.schedule(timer, start_ms + wait_ms);
      wheel.advance(start_ms + wait_ms - 1);
      EXPECT_TRUE(due_owners(wheel).empty()) << start_ms << " + " << wait_ms;
      wheel.advance(start_ms + wait_ms);
      EXPECT_EQ(due_owners(wheel), std::vector<uint64_t>{7}) << start_ms << " + " << wait_ms;
      EXPECT_FALSE(timer.scheduled());
    }
  }
}

TEST(TimerWheel, is_due_at_once_for_a_time_that_has_passed) {
  TimerWheel wheel(1'000);
  Timer now(1);
  Timer before(2);
  wheel.schedule(now, 1'000);
  wheel.schedule(before, 3);
  EXPECT_EQ(wheel.next_due_ms(), 1'000);
  EXPECT_EQ(due_owners(wheel), (std::vector<uint64_t>{1, 2}));
}

TEST(TimerWheel, moves_a_timer_that_is_scheduled) {
  TimerWheel wheel(0);
  Timer timer(1);
  wheel.schedule(timer, 10);
  wheel.schedule(timer, 5'000);
  wheel.advance(4'999);
  EXPECT_TRUE(due_owners(wheel).empty());
  wheel.advance(5'000);
  EXPECT_EQ(due_owners(wheel), std::vector<uint64_t>{1});
}

TEST(TimerWheel, forgets_a_timer_that_is_cancelled_or_gone) {
  TimerWheel wheel(0);
  Timer cancelled(1);
  wheel.schedule(cancelled, 10);
  TimerWheel::cancel(cancelled);
  {
    Timer gone(2);
    wheel.schedule(gone, 10);
  }
  Timer due(3);
  wheel.schedule(due, 10);
  wheel.advance(9);
  wheel.advance(10);
  EXPECT_EQ(due_owners(wheel), std::vector<uint64_t>{3});
}

TEST(TimerWheel, cancels_a_due_timer_before_it_is_popped) {
  TimerWheel wheel(0);
  Timer first(1);
  Timer second(2);
  wheel.schedule(first, 5);
  wheel.schedule(second, 5);
  wheel.advance(5);
  TimerWheel::cancel(second);
  EXPECT_EQ(due_owners(wheel), std::vector<uint64_t>{1});
}

// Timers that were scheduled far ahead, and have to move down two levels at the same time.
TEST(TimerWheel, moves_many_in_slices) {
  constexpr int moves_max = 100;
  constexpr size_t count = size_t{3} * moves_max;
  constexpr int64_t due_ms = 3 * 65'536 + 256;
  TimerWheel wheel(0, moves_max);
  std::vector<std::unique_ptr<Timer>> timers;
  for (uint64_t owner = 0; owner < count; ++owner) {
    timers.push_back(std::make_unique<Timer>(owner));
    wheel.schedule(*timers.back(), due_ms);
  }
  std::set<uint64_t> owners;
  for (size_t slices = 0; owners.size() < count - 2; ++slices) {
    ASSERT_LE(wheel.next_due_ms(), due_ms);
    wheel.advance(due_ms);
    for (const uint64_t owner : due_owners(wheel)) owners.insert(owner);
    ASSERT_LE(owners.size(), (slices + 1) * moves_max);
    if (slices == 0) TimerWheel::cancel(*timers[1]);
    if (slices == 0) wheel.schedule(*timers[count - 1], due_ms + 5);
    if (slices == 1) wheel.schedule(*timers[count - 2], 7);
  }
  EXPECT_FALSE(owners.contains(1) || owners.contains(count - 1));
  wheel.advance(due_ms + 4);
  EXPECT_TRUE(due_owners(wheel).empty());
  wheel.advance(due_ms + 5);
  EXPECT_EQ(due_owners(wheel), std::vector<uint64_t>{count - 1});
}

TEST(TimerWheel, knows_when_nothing_is_due) {
  TimerWheel wheel(0);
  EXPECT_EQ(wheel.next_due_ms(), never_ms);
  EXPECT_EQ(wheel.pop_due(), nullptr);
}

// The wheel's timers and, by time, those that must be due.
class Model {
 public:
  explicit Model(uint64_t seed)
      : random_(seed), wheel_(now_ms_, seed % 2 == 0 ? 1'000 : 1 + static_cast<int>(draw(8))) {
    for (uint64_t owner = 0; owner < timers_count; ++owner) {
      timers_.push_back(std::make_unique<Timer>(owner));
    }
  }

  void step() {
    const auto owner = static_cast<size_t>(draw(timers_count));
    switch (draw(4)) {
      case 0:
      case 1:
        schedule(owner);
        break;
      case 2:
        TimerWheel::cancel(*timers_[owner]);
        due_ms_.erase(owner);
        break;
      default:
        advance();
    }
  }

 private:
  static constexpr uint64_t timers_count = 64;

  uint64_t draw(uint64_t below) { return random_() % below; }

  // Short and long spans alike: a power of two, and something below it.
  int64_t span() { return static_cast<int64_t>(draw(uint64_t{2} << draw(36))); }

  void schedule(size_t owner) {
    due_ms_[owner] = now_ms_ + span();
    wheel_.schedule(*timers_[owner], due_ms_[owner]);
  }

  void advance() {
    check_next_due();
    now_ms_ += span();
    std::vector<uint64_t> owners;
    do {
      wheel_.advance(now_ms_);
      const std::vector<uint64_t> some = due_owners(wheel_);
      owners.insert(owners.end(), some.begin(), some.end());
    } while (wheel_.next_due_ms() <= now_ms_);
    std::set<uint64_t> expected;
    for (const auto& [owner, due_ms] : due_ms_) {
      if (due_ms <= now_ms_) expected.insert(owner);
    }
    for (const uint64_t owner : expected) due_ms_.erase(owner);
    EXPECT_EQ(std::set<uint64_t>(owners.begin(), owners.end()), expected);
    EXPECT_EQ(owners.size(), expected.size());
  }

  // A caller that sleeps until next_due_ms() never sleeps too long.
  void check_next_due() {
    int64_t first_ms = INT64_MAX;
    for (const auto& [owner, due_ms] : due_ms_) first_ms = std::min(first_ms, due_ms);
    EXPECT_LE(wheel_.next_due_ms(), std::max(first_ms, now_ms_));
  }

  std::mt19937_64 random_;
  int64_t now_ms_ = 1'000'000;
  TimerWheel wheel_;
  std::vector<std::unique_ptr<Timer>> timers_;
  std::map<uint64_t, int64_t> due_ms_;
};

TEST(TimerWheel, agrees_with_a_sorted_map) {
  const char* given = std::getenv("SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("SEED=" + std::to_string(seed) + " repeats it");
  Model model(seed);
  for (int step = 0; step < 100'000 && !HasFailure(); ++step) model.step();
}

}  // namespace
}  // namespace sluice::base
