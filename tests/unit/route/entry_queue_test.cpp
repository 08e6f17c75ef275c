// Goal: slots leave a queue in the order of their arrival; queues that share their links never mix.
// Method: two queues over one list of links.
#include "route/entry_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::route {
namespace {

std::vector<uint32_t> pop_all(EntryQueue& queue) {
  std::vector<uint32_t> slots;
  while (!queue.empty()) slots.push_back(queue.pop());
  return slots;
}

TEST(EntryQueue, keeps_the_order_of_each_queue) {
  std::vector<uint32_t> next(8);
  EntryQueue one(next), other(next);
  one.push(5);
  other.push(0);
  one.push(2);
  other.push(7);
  one.push(3);
  EXPECT_EQ(pop_all(one), (std::vector<uint32_t>{5, 2, 3}));
  EXPECT_EQ(pop_all(other), (std::vector<uint32_t>{0, 7}));
}

TEST(EntryQueue, is_used_again_when_it_was_empty) {
  std::vector<uint32_t> next(4);
  EntryQueue queue(next);
  EXPECT_TRUE(queue.empty());
  queue.push(1);
  EXPECT_EQ(queue.pop(), 1U);
  EXPECT_TRUE(queue.empty());
  queue.push(1);
  queue.push(0);
  EXPECT_EQ(pop_all(queue), (std::vector<uint32_t>{1, 0}));
}

}  // namespace
}  // namespace sluice::route
