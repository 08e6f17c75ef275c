// Goal: nothing is lost, doubled or out of order between two threads, and a sleeper is woken.
// Method: two real threads that lend each other the same few items; also under ThreadSanitizer.
#include "route/ring.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "route/doorbell.hpp"

namespace sluice::route {
namespace {

TEST(Ring, pops_in_order_what_was_pushed_before_tail_was_read) {
  Ring<int> ring(2);
  int one = 1, two = 2;
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.pop(ring.tail()), nullptr);
  ring.push(&one);
  const uint64_t tail = ring.tail();
  ring.push(&two);
  EXPECT_EQ(ring.pop(tail), &one);
  EXPECT_EQ(ring.pop(tail), nullptr);
  EXPECT_FALSE(ring.empty());
  EXPECT_EQ(ring.pop(ring.tail()), &two);
  EXPECT_TRUE(ring.empty());
}

// A kernel's poll() and wake(), as a condition variable.
class Sleeper {
 public:
  void sleep() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

struct Side {
  Ring<uint64_t> in{4};
  Doorbell doorbell;
  Sleeper sleeper;

  // The next item that was lent to this side; sleeps until there is one.
  uint64_t& take() {
    while (true) {
      if (uint64_t* thing = in.pop(in.tail())) return *thing;
      doorbell.mark_asleep();
      if (in.empty()) sleeper.sleep();
      doorbell.mark_awake();
    }
  }
  void give(uint64_t& thing) {
    in.push(&thing);
    if (doorbell.ring()) sleeper.wake();
  }
};

TEST(Ring, lends_items_to_a_thread_that_sleeps_in_between) {
  constexpr uint64_t rounds = 20'000;
  Side near, far;
  uint64_t things[3] = {};
  std::thread other([&] {
    for (uint64_t round = 0; round < rounds; ++round) {
      uint64_t& thing = far.take();
      thing += 1;
      near.give(thing);
    }
  });
  for (uint64_t& thing : things) far.give(thing);
  for (uint64_t round = 0; round < rounds; ++round) {
    uint64_t& thing = near.take();
    if (round + std::size(things) < rounds) far.give(thing);
  }
  other.join();
  EXPECT_EQ(things[0] + things[1] + things[2], rounds);
}

TEST(Doorbell, one_ringer_wakes_a_sleeper) {
  Doorbell doorbell;
  EXPECT_FALSE(doorbell.ring());
  doorbell.mark_asleep();
  EXPECT_TRUE(doorbell.ring());
  EXPECT_FALSE(doorbell.ring());
  doorbell.mark_asleep();
  doorbell.mark_awake();
  EXPECT_FALSE(doorbell.ring());
}

}  // namespace
}  // namespace sluice::route
