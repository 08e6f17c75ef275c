// Goal: what another node has not answered is decided once, by the shards of this node that own the
//       keys, and returns to its request.
// Method: two shards in one thread, and a target without a link: all that is sent there is left to
//         them.
#include "server/stand_in.hpp"

#include <gtest/gtest.h>

#include "shard/key_shard.hpp"
#include "tests/unit/peer/peer_fixture.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {
namespace {

using api::Verdict;

// One shard of this node.
struct Side {
  Side(route::Mesh& mesh, api::ShardId shard) : mailboxes(mesh, shard, {{2, 0}, 2}) {}

  void turn() {
    mailboxes.receive(*this);
    mailboxes.flush();
  }
  void on_message(api::ShardId, route::ShardMessage& message) {
    for (const route::ShardTask& task : message.tasks) {
      stand_in.decide(*std::get<StandInTask*>(task));
    }
  }
  void on_returned(route::TargetId, route::ShardMessage& message) {
    for (const route::ShardTask& task : message.tasks) {
      stand_in.on_decided(*std::get<StandInTask*>(task));
    }
  }

  session::KeepingBackend backend;
  session::Context context{backend, {.waiters_max = 10}};
  route::Mailboxes mailboxes;
  shard::KeyShard keys{{.keys_max = 100, .policy = {.max_requests = 1}}};
  StandIn stand_in{context, mailboxes, keys};
};

class StandInTest : public peer::PeerFixture {
 protected:
  StandInTest() : PeerFixture(fleet(base::PeerFailure::local)) {}

  std::string key_of(api::ShardId shard) const {
    for (int number = 0;; ++number) {
      std::string key = "key" + std::to_string(number);
      if (one_.mailboxes.shard_of(key) == shard) return key;
    }
  }
  // Has what is stranded decided, and delivers it.
  void decide() {
    for (const peer::Context::Stranded& stranded : std::exchange(context_.stranded, {})) {
      one_.stand_in.begin(*stranded.target, *stranded.outgoing);
    }
    for (int turn = 0; turn < 3; ++turn) {
      one_.turn();
      two_.turn();
    }
    deliver(target_);
  }
  uint64_t decisions(const Side& side) const {
    uint64_t count = 0;
    for (const uint64_t of_verdict : side.keys.statistics().decisions) count += of_verdict;
    return count;
  }

  route::Mesh shards_{{.shards = 2}};
  Side one_{shards_, 0};
  Side two_{shards_, 1};
  peer::PeerTarget target_{1, context_, counts_};
};

TEST_F(StandInTest, each_key_is_decided_by_its_shard) {
  const std::string here = key_of(0), there = key_of(1);
  send(target_, std::vector{here, there, there, here});
  decide();
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::approved, Verdict::approved, Verdict::denied, Verdict::denied}));
  EXPECT_EQ(decisions(one_), 2U);
  EXPECT_EQ(decisions(two_), 2U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(StandInTest, only_what_has_no_answer_is_decided) {
  const std::string here = key_of(0);
  post(target_, std::vector{here, here});
  target_.flush();
  context_.stranded.at(0).outgoing->message.verdicts(0, 1)[0] = Verdict::denied;
  decide();
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::denied, Verdict::approved}));
  EXPECT_EQ(decisions(one_), 1U);
}

TEST_F(StandInTest, detailed_entries_have_their_details_and_wait_here) {
  const std::string there = key_of(1);
  api::Entry first = entry_of(there);
  first.flags = api::flag::wants_details;
  send(target_, std::vector{first, waiting_entry(there, 3)});
  peer::Outgoing& outgoing = *context_.stranded.at(0).outgoing;
  decide();
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::approved, Verdict::queued}));
  EXPECT_EQ(delivered_.answers[0].detail.limit, 1U);
  EXPECT_NE(delivered_.answers[1].waiter, api::no_waiter);
  EXPECT_NE(outgoing.message.entries(1, 1)[0].flags & api::flag::stays_here, 0)
      << "its waiter belongs to a shard of this node";
}

TEST_F(StandInTest, a_shard_that_shuts_down_queues_nothing) {
  const std::string here = key_of(0);
  one_.context.draining = true;
  send(target_, std::vector{entry_of(here), waiting_entry(here, 3)});
  decide();
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::approved, Verdict::draining}));
}

}  // namespace
}  // namespace sluice::server
