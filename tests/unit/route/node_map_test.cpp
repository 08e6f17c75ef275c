// Keys of other nodes lead to their targets: by the list to a node, by its shards to a lane; this
// node stands in where it must. The router sends entries there, by key and by handle.
#include "route/node_map.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_region.hpp"
#include "route/entry_router.hpp"
#include "route/mailboxes.hpp"

namespace sluice::route {
namespace {

// A key of this node of the list.
std::string key_of_node(const NodeMap& nodes, uint32_t node, int from = 0) {
  for (int number = from;; ++number) {
    std::string key = "key" + std::to_string(number);
    if (nodes.node_of(key) == node) return key;
  }
}

TEST(NodeMap, of_a_lone_server_owns_every_key) {
  const NodeMap nodes;
  EXPECT_TRUE(nodes.is_alone());
  EXPECT_TRUE(nodes.owns("any"));
  EXPECT_EQ(nodes.targets_count(), 0U);
  const NodeMap one({1, 0}, 4);
  EXPECT_TRUE(one.is_alone());
  EXPECT_EQ(one.targets_count(), 0U);
}

TEST(NodeMap, gives_keys_to_nodes_as_the_list_does) {
  const NodeMap nodes({3, 1}, 2);
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_EQ(nodes.node_of(key), proto::key_node(key, 3));
    EXPECT_EQ(nodes.owns(key), nodes.node_of(key) == 1);
  }
}

TEST(NodeMap, gives_subjects_to_nodes_by_their_tag) {
  const NodeMap nodes({3, 1}, 2);
  for (int i = 0; i < 100; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    EXPECT_EQ(nodes.node_of_subject(tag + "a"), nodes.node_of_subject("b" + tag));
    EXPECT_EQ(nodes.node_of_subject(std::to_string(i)), proto::subject_node(std::to_string(i), 3));
  }
}

TEST(NodeMap, reservations_lead_to_the_node_and_the_shard_that_have_them) {
  NodeMap nodes({3, 1}, 2);
  const auto id_of = [](uint32_t slot, uint16_t route) {
    return proto::reservation_id::make(route, false, 5, static_cast<uint16_t>(slot));
  };
  EXPECT_EQ(nodes.node_of_reservation(id_of(1, 0)), 0U);
  EXPECT_EQ(nodes.node_of_reservation(id_of(2, 0)), 1U);
  EXPECT_EQ(nodes.node_of_reservation(id_of(3, 0)), 2U);
  EXPECT_EQ(nodes.node_of_reservation(id_of(0, 0)), 1U);  // made without a list
  EXPECT_EQ(nodes.node_of_reservation(id_of(4, 0)), 1U);  // or with a longer one
  EXPECT_EQ(nodes.target_of_reservation(2, id_of(3, 0xFFFF)), nodes.first_target(2));
  nodes.set_shards(2, 4, 0);
  EXPECT_EQ(nodes.target_of_reservation(2, id_of(3, 0)), nodes.first_target(2));
  EXPECT_EQ(nodes.target_of_reservation(2, id_of(3, 0xFFFF)), nodes.first_target(2) + 3);
}

TEST(NodeMap, each_other_node_has_targets_behind_the_shards) {
  const NodeMap nodes({3, 1}, 2);
  EXPECT_EQ(nodes.node_targets(), NodeMap::other_targets_max / 2);
  EXPECT_EQ(nodes.first_target(0), 2U);
  EXPECT_EQ(nodes.first_target(2), 2U + nodes.node_targets());
  EXPECT_EQ(nodes.targets_count(), 2 * nodes.node_targets());
}

TEST(NodeMap, many_nodes_have_a_target_each) {
  const NodeMap nodes({1'000, 999}, 4);
  EXPECT_EQ(nodes.node_targets(), 1U);
  EXPECT_EQ(nodes.targets_count(), 999U);
  EXPECT_EQ(nodes.first_target(998), 4U + 998U);
}

TEST(NodeMap, the_lanes_of_many_shards_are_bounded) {
  EXPECT_EQ(NodeMap({2, 0}, 8).node_targets(), NodeMap::other_targets_max);
  EXPECT_EQ(NodeMap({2, 0}, 64).node_targets(), NodeMap::node_lanes_max / 64);
  EXPECT_EQ(NodeMap({3, 0}, 64).node_targets(), NodeMap::node_lanes_max / 64 / 2);
  EXPECT_EQ(NodeMap({2, 0}, 2'000).node_targets(), 1U);
}

TEST(NodeMap, lanes_lead_to_each_shard_in_its_order_where_they_are_enough) {
  for (const uint32_t own_shard : {0U, 1U, 5U}) {
    for (uint32_t lane = 0; lane < 4; ++lane) {
      EXPECT_EQ(NodeMap::shard_of_lane(own_shard, lane, 4, 4), lane);
    }
  }
}

TEST(NodeMap, fewer_lanes_than_shards_lead_to_all_of_them_together) {
  std::vector<uint32_t> lanes_of(64);
  for (uint32_t own_shard = 0; own_shard < 64; ++own_shard) {
    for (uint32_t lane = 0; lane < 16; ++lane) {
      ++lanes_of[NodeMap::shard_of_lane(own_shard, lane, 16, 64)];
    }
  }
  for (const uint32_t lanes : lanes_of) EXPECT_EQ(lanes, 16U);
}

TEST(NodeMap, keys_of_a_node_that_is_not_known_lead_to_its_first_target) {
  NodeMap nodes({2, 0}, 1);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(nodes.target_of(key_of_node(nodes, 1, i)), nodes.first_target(1));
  }
}

TEST(NodeMap, keys_lead_to_the_shards_that_the_node_has_announced) {
  NodeMap nodes({2, 0}, 1);
  nodes.set_shards(1, 4, 99);
  std::set<TargetId> used;
  for (int i = 0; i < 200; ++i) {
    const std::string key = key_of_node(nodes, 1, i);
    const TargetId target = nodes.target_of(key);
    EXPECT_EQ(target, nodes.first_target(1) + proto::owner_shard(proto::routing_hash(key, 99), 4));
    used.insert(target);
  }
  EXPECT_EQ(used.size(), 4U);
  nodes.forget_shards(1);
  EXPECT_EQ(nodes.target_of(key_of_node(nodes, 1, 0)), nodes.first_target(1));
}

TEST(NodeMap, keys_of_this_node_lead_to_its_shards) {
  NodeMap nodes({3, 1}, 4);
  nodes.set_shards(1, 4, 7);
  for (int i = 0; i < 200; ++i) {
    const std::string key = key_of_node(nodes, 1, i);
    EXPECT_EQ(nodes.target_of(key), proto::owner_shard(proto::routing_hash(key, 7), 4));
  }
}

TEST(NodeMap, finds_the_targets_of_a_column_as_of_each_key) {
  NodeMap nodes({5, 2}, 3);
  nodes.set_shards(2, 3, 7);
  nodes.set_shards(0, 1, 8);
  nodes.set_shards(1, 100, 9);
  nodes.set_shards(4, 2, 10);
  nodes.stand_in_for(nodes.first_target(0), true);
  std::string text;
  std::vector<uint16_t> sizes;
  std::vector<TargetId> expected;
  for (int i = 0; i < 1'003; ++i) {
    const std::string key = std::string(static_cast<size_t>(i % 21), 'k') + std::to_string(i);
    text += key;
    sizes.push_back(static_cast<uint16_t>(key.size()));
    expected.push_back(nodes.target_of(key));
  }
  std::vector<TargetId> targets(sizes.size());
  nodes.find_targets({.text = text, .sizes = sizes}, targets);
  EXPECT_EQ(targets, expected);
}

TEST(NodeMap, a_node_with_more_shards_than_targets_shares_them) {
  NodeMap nodes({200, 0}, 1);
  ASSERT_EQ(nodes.node_targets(), 1U);
  nodes.set_shards(5, 64, 7);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(nodes.target_of(key_of_node(nodes, 5, i)), nodes.first_target(5));
  }
}

TEST(NodeMap, entries_that_another_node_has_sent_stay) {
  api::Entry entry;
  EXPECT_EQ(reach_of(entry), Reach::fleet);
  entry.flags = api::flag::stays_here;
  EXPECT_EQ(reach_of(entry), Reach::node);
}

// --- The router ----------------------------------------------------------------------------

// A target that keeps its messages.
class KeepingTarget final : public Target {
 public:
  KeepingTarget() : memory_(ShardMessage::memory_bytes(8), "a message of a test") {}
  bool has_room(uint32_t, size_t) const noexcept override { return takes; }
  ShardMessage& open(uint32_t, size_t) noexcept override { return message; }
  void end_part() noexcept override { ++parts; }
  void post(Notice&) noexcept override {}
  void post(ShardTask) noexcept override {}
  void post(Handover&&) noexcept override {}
  bool post(const api::Grant&) noexcept override { return false; }
  bool flush() noexcept override { return true; }
  bool idle() const noexcept override { return true; }

 private:
  base::MappedRegion memory_;

 public:
  ShardMessage message{8, memory_.data()};
  bool takes = true;
  int parts = 0;
};

// Two nodes: this one has one shard, the other one two.
class NodeRouterTest : public ::testing::Test {
 protected:
  NodeRouterTest() {
    for (uint32_t lane = 0; lane < targets_.size(); ++lane) {
      mailboxes_.attach(static_cast<TargetId>(first() + lane), targets_[lane]);
    }
    nodes().set_shards(1, 2, 99);
  }
  NodeMap& nodes() { return mailboxes_.nodes(); }
  TargetId first() { return mailboxes_.nodes().first_target(1); }
  // A key of the other node whose lane this is.
  std::string key_of_lane(uint32_t lane) {
    for (int number = 0;; ++number) {
      std::string key = "lane" + std::to_string(number);
      const uint32_t shard = proto::owner_shard(proto::routing_hash(key, 99), 2);
      if (nodes().node_of(key) == 1 && shard == lane) return key;
    }
  }
  std::string own_key() { return key_of_node(nodes(), 0); }

  struct Keys {
    explicit Keys(const std::vector<std::string>& keys) {
      for (const std::string& key : keys) {
        text += key;
        sizes.push_back(static_cast<uint16_t>(key.size()));
      }
    }
    KeyColumn column() const { return {.text = text, .sizes = sizes}; }
    std::string text;
    std::vector<uint16_t> sizes;
  };
  api::Entry& add_lone(const std::string& key, uint8_t flags = 0) {
    api::Entry& entry = turn_.add({.id = 3}, 1)[0];
    entry = {
        .key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size()), .flags = flags};
    return entry;
  }

  Mesh mesh_{{.shards = 1, .messages = 1, .entries_max = 4, .routing_seed = 9}};
  Mailboxes mailboxes_{mesh_, 0, {{2, 0}, 1}};
  std::array<KeepingTarget, 2> targets_;
  Turn turn_;
  EntryRouter router_{mailboxes_, turn_, {}, 10};
};

TEST_F(NodeRouterTest, plain_entries_go_to_their_lanes) {
  const Keys keys({own_key(), key_of_lane(1), key_of_lane(0), key_of_lane(1)});
  ASSERT_TRUE(router_.find_room(keys.column(), Form::plain));
  router_.add({.id = 3}, keys.column());
  EXPECT_EQ(turn_.entries_count(), 1U);
  EXPECT_EQ(targets_[0].message.entries_count(), 1U);
  EXPECT_EQ(targets_[0].message.places(0, 1)[0], 2U);
  EXPECT_EQ(targets_[1].message.entries_count(), 2U);
  EXPECT_EQ(targets_[1].parts, 1);
  EXPECT_EQ(router_.book().open_count(), 1U);
}

TEST_F(NodeRouterTest, what_another_node_has_sent_stays) {
  const Keys keys({key_of_lane(0), key_of_lane(1)});
  ASSERT_TRUE(router_.find_room(keys.column(), Form::plain, Reach::node));
  router_.add({.id = 3}, keys.column());
  EXPECT_EQ(turn_.entries_count(), 2U);
  const std::string key = key_of_lane(0);
  add_lone(key, api::flag::stays_here);
  router_.send_lone();
  EXPECT_EQ(turn_.entries_count(), 3U);
  EXPECT_EQ(targets_[0].message.entries_count(), 0U);
}

TEST_F(NodeRouterTest, a_lone_entry_goes_to_its_lane) {
  const std::string key = key_of_lane(1);
  EXPECT_TRUE(router_.find_lone_room(add_lone(key)));
  router_.send_lone();
  EXPECT_TRUE(turn_.empty());
  ASSERT_EQ(targets_[1].message.entries_count(), 1U);
  EXPECT_EQ(targets_[1].message.entries(0, 1)[0].key(), key);
}

TEST_F(NodeRouterTest, only_requests_for_a_full_lane_wait) {
  targets_[0].takes = false;
  mailboxes_.note_fullness(true);
  EXPECT_FALSE(router_.find_room(Keys({key_of_lane(0)}).column(), Form::plain));
  EXPECT_TRUE(router_.find_room(Keys({key_of_lane(1)}).column(), Form::plain));
  EXPECT_TRUE(router_.find_room(Keys({own_key()}).column(), Form::plain));
  const std::string key = key_of_lane(0);
  EXPECT_FALSE(router_.find_lone_room(
      {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())}));
  EXPECT_FALSE(mailboxes_.take_room_made());
  mailboxes_.note_room(first());
  EXPECT_TRUE(mailboxes_.take_room_made());
}

TEST_F(NodeRouterTest, this_node_stands_in_for_a_lane) {
  nodes().stand_in_for(first(), true);
  EXPECT_TRUE(nodes().stands_in_for(first()));
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(0), Reach::fleet), 0U);
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(1), Reach::fleet), first() + 1);
  nodes().stand_in_for(first(), false);
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(0), Reach::fleet), first());
}

// Every worker notes the same of each lane again and again.
TEST_F(NodeRouterTest, this_node_stands_in_until_the_last_lane_is_back) {
  const auto second = static_cast<TargetId>(first() + 1);
  for (int i = 0; i < 2; ++i) nodes().stand_in_for(first(), true);
  for (int i = 0; i < 2; ++i) nodes().stand_in_for(second, true);
  for (int i = 0; i < 2; ++i) nodes().stand_in_for(first(), false);
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(0), Reach::fleet), first());
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(1), Reach::fleet), 0U);
  nodes().stand_in_for(second, false);
  EXPECT_EQ(mailboxes_.target_of(key_of_lane(1), Reach::fleet), second);
}

// A key's handle is kept while its node's shards change and this node stands in.
TEST_F(NodeRouterTest, handles_follow_their_keys) {
  const std::array keys{own_key(), key_of_lane(0), key_of_lane(1)};
  const std::array<api::Handle, 3> handles{4, 5, 6};
  for (size_t i = 0; i < keys.size(); ++i) router_.set_handle(handles[i], keys[i]);
  EXPECT_TRUE(router_.owns(4));
  EXPECT_FALSE(router_.owns(5));
  const auto look_up = [&](std::span<const api::Handle> others, const api::HeldKeys& held) {
    size_t text_bytes = 0;
    for (size_t i = 0; i < others.size(); ++i) {
      const std::string& key = keys[others[i] - 4];
      key.copy(held.text.data() + text_bytes, key.size());
      held.sizes[i] = static_cast<uint16_t>(key.size());
      text_bytes += key.size();
    }
    return text_bytes;
  };
  EXPECT_EQ(router_.find_keys(handles, look_up), keys[1].size() + keys[2].size());
  ASSERT_TRUE(router_.find_room_for_keys(3));
  router_.add({.id = 3}, handles);
  EXPECT_EQ(turn_.handles().size(), 1U);
  EXPECT_EQ(targets_[0].message.text_from(0), keys[1]);
  EXPECT_EQ(targets_[1].message.text_from(0), keys[2]);

  nodes().stand_in_for(first(), true);
  nodes().stand_in_for(static_cast<TargetId>(first() + 1), true);
  EXPECT_EQ(router_.find_keys(handles, look_up), 0U);
  router_.add({.id = 4}, handles);
  EXPECT_EQ(turn_.handles().size(), 4U);
}

}  // namespace
}  // namespace sluice::route
