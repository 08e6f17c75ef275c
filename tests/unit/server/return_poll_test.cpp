// Goal: a worker polls for the messages of its own that are away, if few entries are in them, for a
//       bounded time, and not again soon after it has polled in vain.
// Method: two mailboxes and a simulated clock; the other shard answers when the test says so.
//         worker_test.cpp has the same in a worker.
#include "server/return_poll.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "io/sim/sim_io.hpp"

namespace sluice::server {
namespace {

class ReturnPollTest : public ::testing::Test, private io::PauseWatch {
 protected:
  ReturnPollTest() { network_.watch_pauses(*this); }

  void send(uint32_t entries_count) {
    const std::vector<uint16_t> sizes(entries_count, 0);
    route::ShardMessage& message = mine_.open(1, entries_count, 0);
    message.begin_part(0, route::Form::plain, entries_count, true);
    message.add({.text = "", .sizes = sizes});
    mine_.target(1).end_part();
    mine_.flush();
  }
  void answer() { other_.receive(*this); }
  void on_pause() override {
    if (++pauses_ == answers_in_) answer();
  }

 public:
  void on_message(api::ShardId, route::ShardMessage&) {}
  void on_returned(api::ShardId, route::ShardMessage&) {}

 protected:
  io::Random random_{1};
  io::SimNetwork network_{random_};
  io::SimIo io_{io::SimOptions{}, network_};
  route::Mesh mesh_{{.shards = 2}};
  route::Mailboxes mine_{mesh_, 0}, other_{mesh_, 1};
  ReturnPoll poll_{io_, mine_, return_poll_ns};
  int pauses_ = 0;
  int answers_in_ = 0;
};

TEST_F(ReturnPollTest, does_not_poll_while_nothing_is_away) {
  EXPECT_FALSE(poll_.finds_work());
  EXPECT_EQ(pauses_, 0);
}

TEST_F(ReturnPollTest, does_not_poll_without_a_core_for_each_shard) {
  ReturnPoll never(io_, mine_, 0);
  send(1);
  EXPECT_FALSE(never.finds_work());
  EXPECT_EQ(pauses_, 0);
}

TEST_F(ReturnPollTest, polls_for_few_entries_only) {
  send(polled_entries_max);
  answers_in_ = 2;
  EXPECT_TRUE(poll_.finds_work());
  mine_.receive(*this);
  pauses_ = 0;
  send(polled_entries_max + 1);
  EXPECT_FALSE(poll_.finds_work());
  EXPECT_EQ(pauses_, 0);
}

TEST_F(ReturnPollTest, leaves_some_polls_out_after_one_in_vain) {
  send(1);
  for (int each = 0; each < 3; ++each) {
    pauses_ = 0;
    EXPECT_FALSE(poll_.finds_work());
    EXPECT_GT(pauses_, 0);
    EXPECT_LE(pauses_ * io::SimNetwork::pause_ns, return_poll_ns + 2 * io::SimNetwork::pause_ns);
    pauses_ = 0;
    for (uint32_t skip = 0; skip < skips_after_vain_poll; ++skip) EXPECT_FALSE(poll_.finds_work());
    EXPECT_EQ(pauses_, 0);
  }
}

}  // namespace
}  // namespace sluice::server
