// Goal: connections are spread evenly and counted once, also while they move; those beyond the
//       bound are answered, but not too many at a time.
// Method: the first of two shards over an Io that records calls; the test makes the events.
#include "server/connection_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/fake_io.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {
namespace {

constexpr uint32_t connections_max = 4;

class ConnectionPlacementTest : public ::testing::Test {
 protected:
  // Accepts the next connection, on the next socket.
  io::SocketId accept() {
    const io::SocketId socket{.index = sockets_++, .generation = 1};
    placement_.on_accepted(
        {.kind = io::EventKind::accepted, .listener = http_listener, .socket = socket});
    return socket;
  }
  uint32_t counted(uint32_t shard) const { return worker_group_.connections(shard, http_listener); }
  long called(const std::string& call) const {
    return std::count(io_.calls.begin(), io_.calls.end(), call);
  }

  WorkerGroup worker_group_{{.shards = 2}};
  support::FakeIo io_;
  session::KeepingBackend backend_;
  const session::Options options_{};
  session::Context context_{backend_, options_};
  SessionTable sessions_{
      {.sockets_max = connections_max + spare_sockets, .key_bytes_max = 64, .shards = 1}};
  route::Mailboxes mailboxes_{worker_group_.mesh(), 0};
  WorkerStatistics statistics_;
  ConnectionPlacement placement_{io_,        worker_group_, context_,       sessions_,
                                 mailboxes_, statistics_,   connections_max};
  uint32_t sockets_ = 0;
};

TEST_F(ConnectionPlacementTest, every_other_connection_goes_to_the_other_shard) {
  accept();
  const io::SocketId second = accept();
  EXPECT_EQ(sessions_.open_count(), 1U);
  EXPECT_EQ(called("release"), 1);
  EXPECT_EQ(counted(0), 1U);
  EXPECT_EQ(counted(1), 1U) << "counted at its target";
  EXPECT_FALSE(placement_.idle());
  placement_.on_released({.kind = io::EventKind::released, .socket = second, .result = 9});
  EXPECT_TRUE(placement_.idle());
  EXPECT_FALSE(mailboxes_.idle()) << "the handover is on its way";
  EXPECT_EQ(statistics_.moved, 1U);
}

TEST_F(ConnectionPlacementTest, keeps_connections_while_draining) {
  context_.draining = true;
  accept();
  accept();
  EXPECT_EQ(counted(0), 2U);
  EXPECT_EQ(called("release"), 0);
}

TEST_F(ConnectionPlacementTest, moving_connection_counts_at_its_target_even_when_it_ends) {
  const io::SocketId socket = accept();
  placement_.move(*sessions_.find(socket), 1);
  EXPECT_EQ(counted(0), 0U);
  EXPECT_EQ(counted(1), 1U);
  placement_.on_closed(socket);
  EXPECT_EQ(worker_group_.connections_of_all(), 0U);
  EXPECT_TRUE(placement_.idle());
  EXPECT_EQ(sessions_.open_count(), 0U);
}

TEST_F(ConnectionPlacementTest, answers_and_does_not_count_connections_beyond_the_bound) {
  for (uint32_t shard = 0; shard < 2; ++shard)
    worker_group_.count_connection(shard, http_listener, 2);
  const io::SocketId refused = accept();
  EXPECT_TRUE(sessions_.find(refused)->refused());
  EXPECT_EQ(worker_group_.connections_of_all(), connections_max);
  placement_.on_closed(refused);
  EXPECT_EQ(worker_group_.connections_of_all(), connections_max);
  EXPECT_EQ(statistics_.refused, 1U);
}

TEST_F(ConnectionPlacementTest, closes_connections_far_beyond_the_bound_at_once) {
  for (uint32_t shard = 0; shard < 2; ++shard)
    worker_group_.count_connection(shard, http_listener, 2);
  for (uint32_t refused = 0; refused < refused_sockets_max; ++refused) accept();
  EXPECT_EQ(called("close"), 0);
  const io::SocketId one_more = accept();
  EXPECT_EQ(called("close"), 1);
  EXPECT_EQ(sessions_.find(one_more), nullptr);
  placement_.on_closed(one_more);  // it never had a session
  EXPECT_EQ(sessions_.open_count(), refused_sockets_max);
}

TEST_F(ConnectionPlacementTest, discards_and_uncounts_connection_without_slot) {
  worker_group_.count_connection(0, http_listener, 1);
  route::Handover handover{.fd = 9, .listener = http_listener, .bytes = {}};
  EXPECT_EQ(placement_.adopt(handover), nullptr);  // a FakeIo has no slots
  EXPECT_EQ(called("discard"), 1);
  EXPECT_EQ(counted(0), 0U);
}

}  // namespace
}  // namespace sluice::server
