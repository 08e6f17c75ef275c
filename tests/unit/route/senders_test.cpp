// A receiver learns of every sender once, whatever its number.
#include "route/senders.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "route/ring.hpp"

namespace sluice::route {
namespace {

TEST(Senders, takes_those_that_were_added) {
  Senders senders;
  Senders::Bits taken{};
  EXPECT_TRUE(senders.empty());
  for (const api::ShardId shard : {0, 63, 64, 255, 255}) senders.add(shard);
  EXPECT_FALSE(senders.empty());
  senders.take(taken);
  EXPECT_TRUE(senders.empty());
  EXPECT_EQ(taken, (Senders::Bits{uint64_t{1} << 63 | 1, 1, 0, uint64_t{1} << 63}));
}

TEST(Senders, keeps_what_was_taken_before) {
  Senders senders;
  Senders::Bits taken{2, 0, 0, 0};
  senders.add(0);
  senders.take(taken);
  EXPECT_EQ(taken[0], 3U);
}

// A sender that finds its bit set pushed before the receiver took it.
TEST(Senders, nothing_that_was_pushed_is_missed) {
  constexpr uint64_t items_count = 200'000;
  Senders senders;
  Ring<int> ring(items_count);
  std::vector<int> items(items_count);
  std::atomic<bool> is_over = false;
  std::jthread sender([&] {
    for (int& item : items) {
      ring.push(&item);
      senders.add(3);
    }
    is_over = true;
  });
  uint64_t received = 0;
  while (received < items_count) {
    const bool was_over = is_over;
    if (senders.empty()) {
      ASSERT_FALSE(was_over) << "a push was missed";
      continue;
    }
    Senders::Bits taken{};
    senders.take(taken);
    const uint64_t tail = ring.tail();
    while (ring.pop(tail) != nullptr) ++received;
  }
  EXPECT_EQ(received, items_count);
}

}  // namespace
}  // namespace sluice::route
