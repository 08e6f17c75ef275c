// A queue keeps its order whichever waiter leaves, and expels those that cost too much.
#include "shard/waiter_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::shard {
namespace {

class WaiterQueueTest : public testing::Test {
 protected:
  WaiterQueueTest() {
    for (Waiter& waiter : waiters) queue.join(waiter);
  }
  std::vector<api::Ticket> tickets() const {
    std::vector<api::Ticket> found;
    queue.for_each([&](const Waiter& waiter) { found.push_back(waiter.ticket); });
    return found;
  }
  std::vector<api::Ticket> expel_above(uint32_t limit) {
    std::vector<api::Ticket> expelled;
    queue.expel_above(limit, [&](Waiter& waiter) { expelled.push_back(waiter.ticket); });
    return expelled;
  }

  std::array<Waiter, 4> waiters{Waiter(1, 0, 5, 0), Waiter(2, 0, 9, 0), Waiter(3, 0, 1, 0),
                                Waiter(4, 0, 7, 0)};
  WaiterQueue queue;
};

TEST_F(WaiterQueueTest, first_in_is_first) {
  EXPECT_EQ(queue.head().ticket, 1U);
  EXPECT_EQ(tickets(), (std::vector<api::Ticket>{1, 2, 3, 4}));
}

TEST_F(WaiterQueueTest, any_waiter_may_leave) {
  queue.leave(waiters[2]);
  queue.leave(waiters[0]);
  EXPECT_EQ(tickets(), (std::vector<api::Ticket>{2, 4}));
  EXPECT_EQ(queue.size(), 2U);
}

TEST_F(WaiterQueueTest, expels_in_queue_order) {
  EXPECT_EQ(expel_above(9), std::vector<api::Ticket>{});
  EXPECT_EQ(expel_above(6), (std::vector<api::Ticket>{2, 4}));
  EXPECT_EQ(expel_above(6), std::vector<api::Ticket>{});
  EXPECT_EQ(expel_above(4), std::vector<api::Ticket>{1});
  EXPECT_EQ(tickets(), std::vector<api::Ticket>{3});
}

TEST_F(WaiterQueueTest, costly_newcomer_is_expelled_later) {
  EXPECT_EQ(expel_above(6), (std::vector<api::Ticket>{2, 4}));
  Waiter costly(5, 0, 8, 0);
  queue.join(costly);
  EXPECT_EQ(expel_above(7), std::vector<api::Ticket>{5});
}

}  // namespace
}  // namespace sluice::shard
