// The session that was served least comes first.
#include "session/ready_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "session/native_session.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

class ReadyQueueTest : public ::testing::Test {
 protected:
  ReadyQueueTest() {
    for (uint32_t index = 0; index < sessions_.size(); ++index) {
      sessions_[index] = std::make_unique<NativeSession>(
          context_, io_, io::SocketId{.index = index, .generation = 1}, memory_);
    }
  }

  // The indexes of all that wait, in the order in which they are popped.
  std::vector<uint32_t> pop_all() {
    std::vector<uint32_t> order;
    while (!context_.ready.empty()) {
      order.push_back(context_.ready.pop().connection().socket().index);
    }
    return order;
  }
  void push(uint32_t index, uint64_t wanted) { context_.ready.push(*sessions_[index], wanted); }
  void charge(uint32_t index, uint64_t work) { context_.ready.charge(*sessions_[index], work); }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_{backend_, {}};
  net::ConnectionMemory memory_{3};
  std::array<std::unique_ptr<NativeSession>, 3> sessions_;
};

TEST_F(ReadyQueueTest, pops_in_the_order_of_arrival_while_all_are_alike) {
  push(2, 10);
  push(0, 10);
  push(1, 10);
  EXPECT_EQ(pop_all(), (std::vector<uint32_t>{2, 0, 1}));
}

TEST_F(ReadyQueueTest, a_small_request_passes_a_large_one) {
  push(0, 1'000);
  push(1, 1);
  EXPECT_EQ(pop_all(), (std::vector<uint32_t>{1, 0}));
}

TEST_F(ReadyQueueTest, whoever_was_served_least_comes_first) {
  charge(0, 500);
  charge(1, 300);
  charge(2, 400);
  for (const uint32_t index : {0, 1, 2}) push(index, 10);
  EXPECT_EQ(pop_all(), (std::vector<uint32_t>{1, 2, 0}));
}

// A session that was served nothing for long must not hold up those that were.
TEST_F(ReadyQueueTest, a_pause_earns_nothing) {
  charge(0, 10'000);
  push(0, 10);
  EXPECT_EQ(pop_all(), std::vector<uint32_t>{0});
  charge(1, 100);
  push(1, 10);
  push(0, 10);
  EXPECT_EQ(pop_all(), (std::vector<uint32_t>{0, 1}));
}

TEST_F(ReadyQueueTest, a_session_that_ends_leaves_the_queue) {
  push(0, 10);
  push(1, 10);
  sessions_[0].reset();
  EXPECT_EQ(pop_all(), std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace sluice::session
