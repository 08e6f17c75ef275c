// Goal: a client that asks for the nodes gets them, and afterwards each change, which has no
//       id; a client that does not ask gets none.
// Method: a session over a backend whose nodes the test changes.
#include <string>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

class NativeSessionTopologyTest : public NativeQuotaFixture {
 protected:
  NativeSessionTopologyTest() {
    backend_.known_nodes = {.list_digest = 5, .own_node = 1, .nodes = {}};
    backend_.known_nodes.nodes.push_back({.host = "a", .rest_port = 80, .state = {}});
    backend_.known_nodes.nodes.push_back(
        {.host = "bc", .rest_port = 81, .state = {.native_port = 82, .shards = 4}});
  }

  void ask(uint64_t id) {
    send(id, [](ClientFrame frame) { frame.setTopology(); });
  }
  // As the worker does.
  void change(uint64_t instance_id) {
    backend_.known_nodes.nodes[0].state.instance_id = instance_id;
    for (TopologyWatcher& watcher : context_.topology_watchers) watcher.on_topology_changed();
    end_turn();
  }
};

TEST_F(NativeSessionTopologyTest, answers_with_all_nodes) {
  ask(7);
  ASSERT_EQ(answers_.size(), 1U);
  const auto frame = answered_frame(0);
  EXPECT_EQ(frame.getId(), 7U);
  const auto reply = frame.getTopologyReply();
  EXPECT_EQ(reply.getListDigest(), 5U);
  EXPECT_EQ(reply.getNodeHash(), schema::NodeHash::FNV1A);
  EXPECT_EQ(reply.getOwnNode(), 1);
  EXPECT_EQ(kj::str(reply.getHosts().asChars()), "abc");
  EXPECT_EQ(reply.getHostSizes()[1], 2);
  EXPECT_EQ(reply.getRestPorts()[0], 80);
  EXPECT_EQ(reply.getNativePorts()[0], 0);
  EXPECT_EQ(reply.getNativePorts()[1], 82);
  EXPECT_EQ(reply.getShards()[1], 4U);
}

TEST_F(NativeSessionTopologyTest, a_client_that_asked_gets_each_change_once) {
  ask(7);
  ask(8);
  answers_.clear();
  change(3);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answered_frame(0).getId(), 0U);
  EXPECT_EQ(answered_frame(0).getTopologyReply().getInstanceIds()[0], 3U);
  end_turn();
  EXPECT_EQ(answers_.size(), 1U);
  change(4);
  EXPECT_EQ(answers_.size(), 2U);
}

// Rows of answers are work of the turn, more than the bytes that they become.
TEST_F(NativeSessionTopologyTest, counts_the_nodes_as_work) {
  ask(7);
  backend_.known_nodes.nodes.resize(1'000);
  context_.work.begin_turn(true);
  context_.work.spend(context_.work.turn_work() - 1'000 * work::row);
  change(3);
  EXPECT_TRUE(context_.work.is_over());
}

TEST_F(NativeSessionTopologyTest, other_clients_get_no_change) {
  change(3);
  EXPECT_TRUE(answers_.empty());
}

TEST_F(NativeSessionTopologyTest, a_change_in_the_turn_of_the_question_is_sent_once) {
  send(7, [](ClientFrame frame) { frame.setTopology(); });
  answers_.clear();
  for (TopologyWatcher& watcher : context_.topology_watchers) watcher.on_topology_changed();
  ask(8);  // its answer has the change
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answered_frame(0).getId(), 8U);
}

TEST_F(NativeSessionTopologyTest, an_ended_session_gets_nothing) {
  ask(7);
  answers_.clear();
  session_.close();
  change(3);
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace sluice::session
