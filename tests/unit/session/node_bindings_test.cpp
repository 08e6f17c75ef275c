// The bindings of another node's worker end 30 s after its last lane has gone.
#include "session/node_bindings.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::session {
namespace {

class NodeBindingsTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> ended_at(int64_t now_ms) {
    std::vector<uint64_t> ended;
    bindings_.end_due(now_ms, [&](uint64_t binding) { ended.push_back(binding); });
    return ended;
  }

  NodeBindings bindings_;
};

TEST_F(NodeBindingsTest, live_while_their_worker_has_a_lane) {
  EXPECT_EQ(bindings_.due_ms(), base::never_ms);
  bindings_.join(1);
  bindings_.join(1);
  bindings_.use(1, 10);
  bindings_.leave(1, 1'000);
  EXPECT_EQ(bindings_.due_ms(), base::never_ms);
  EXPECT_TRUE(ended_at(1'000'000).empty());
  bindings_.leave(1, 2'000);
  EXPECT_EQ(bindings_.due_ms(), 32'000);
  EXPECT_TRUE(ended_at(31'999).empty());
  EXPECT_EQ(ended_at(32'000), std::vector<uint64_t>{10});
  EXPECT_EQ(bindings_.due_ms(), base::never_ms);
  EXPECT_TRUE(ended_at(99'000).empty());
}

TEST_F(NodeBindingsTest, live_on_when_there_is_a_lane_again) {
  bindings_.join(1);
  bindings_.use(1, 10);
  bindings_.leave(1, 0);
  bindings_.join(1);
  EXPECT_EQ(bindings_.due_ms(), base::never_ms);
  EXPECT_TRUE(ended_at(1'000'000).empty());
  bindings_.leave(1, 5'000);
  EXPECT_EQ(ended_at(35'000), std::vector<uint64_t>{10});
}

TEST_F(NodeBindingsTest, of_one_worker_do_not_end_those_of_others) {
  for (const uint64_t sender : {1U, 2U}) {
    bindings_.join(sender);
    bindings_.use(sender, 10 * sender);
    bindings_.use(sender, 10 * sender);
  }
  bindings_.leave(2, 0);
  EXPECT_EQ(ended_at(30'000), std::vector<uint64_t>{20});
}

TEST_F(NodeBindingsTest, whose_client_has_left_are_forgotten) {
  bindings_.join(1);
  bindings_.use(1, 10);
  bindings_.use(1, 11);
  bindings_.forget(10);
  bindings_.leave(1, 0);
  EXPECT_EQ(ended_at(30'000), std::vector<uint64_t>{11});
}

}  // namespace
}  // namespace sluice::session
