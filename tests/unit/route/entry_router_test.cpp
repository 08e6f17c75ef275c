// Entries of this shard stay in the turn, those of others go into messages, each with its place.
// (tests/property/mailboxes_test.cpp brings them back.)
#include "route/entry_router.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::route {
namespace {

class EntryRouterTest : public ::testing::Test {
 protected:
  struct Keys {
    std::string text;
    std::vector<uint16_t> sizes;
    KeyColumn column() const { return {.text = text, .sizes = sizes}; }
  };

  // "001": two keys of shard 0, one of shard 1.
  Keys keys_of(std::string_view owners) {
    Keys keys;
    for (const char owner : owners) {
      std::string key;
      do {
        key = "key" + std::to_string(next_key_++);
      } while (mailboxes_.owner_of(key).shard != owner - '0');
      keys.text += key;
      keys.sizes.push_back(static_cast<uint16_t>(key.size()));
    }
    return keys;
  }
  ShardMessage* sent_to_1() {
    mailboxes_.flush();
    auto& requests = mesh_.mailbox(0, 1).requests;
    return requests.pop(requests.tail());
  }
  std::span<api::Entry> add_detailed(const Keys& keys) {
    const auto entries = turn_.add({.id = 3}, static_cast<uint32_t>(keys.sizes.size()));
    const char* key = keys.text.data();
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i] = {.key_data = key, .cost = static_cast<uint32_t>(i), .key_bytes = keys.sizes[i]};
      key += keys.sizes[i];
    }
    return entries;
  }

  int next_key_ = 0;
  Mesh mesh_{{.shards = 2, .messages = 1, .entries_max = 4, .routing_seed = 9}};
  Mailboxes mailboxes_{mesh_, 0};
  Turn turn_;
  EntryRouter router_{mailboxes_, turn_, {}};
};

TEST_F(EntryRouterTest, keys_of_this_shard_stay_in_the_turn) {
  const Keys keys = keys_of("00");
  ASSERT_TRUE(router_.has_room(keys.column(), Form::plain));
  router_.add({.id = 3}, keys.column());
  EXPECT_EQ(turn_.entries_count(), 2U);
  EXPECT_EQ(turn_.requests()[0].split, Request::whole);
  EXPECT_EQ(turn_.entries()[1].key().data(), keys.text.data() + keys.sizes[0]);
  EXPECT_EQ(router_.book().open_count(), 0U);
  EXPECT_EQ(sent_to_1(), nullptr);
}

TEST_F(EntryRouterTest, a_request_for_one_other_shard_leaves_as_a_whole) {
  const Keys keys = keys_of("111");
  ASSERT_TRUE(router_.has_room(keys.column(), Form::plain));
  router_.add({.id = 3}, keys.column());
  EXPECT_TRUE(turn_.empty());
  const ShardMessage* const message = sent_to_1();
  ASSERT_NE(message, nullptr);
  EXPECT_TRUE(message->parts()[0].is_whole);
  EXPECT_EQ(message->text_from(0), keys.text);
  EXPECT_EQ(router_.other_shard_entries(), 3U);
}

TEST_F(EntryRouterTest, plain_entries_of_several_shards_keep_their_places) {
  const Keys keys = keys_of("01101");
  ASSERT_TRUE(router_.has_room(keys.column(), Form::plain));
  router_.add({.id = 3}, keys.column());
  EXPECT_EQ(turn_.requests()[0].entries_count, 2U);
  EXPECT_EQ(turn_.places()[0], 0U);
  EXPECT_EQ(turn_.places()[1], 3U);
  const ShardMessage* const message = sent_to_1();
  const auto places = message->places(0, 3);
  EXPECT_EQ((std::vector<uint16_t>{places.begin(), places.end()}),
            (std::vector<uint16_t>{1, 2, 4}));
  EXPECT_EQ(router_.book().request(turn_.requests()[0].split).entries_count, 5U);
}

TEST_F(EntryRouterTest, detailed_entries_of_others_leave_the_turn) {
  const Keys keys = keys_of("1011");
  ASSERT_TRUE(router_.has_room(keys.column(), Form::detailed));
  add_detailed(keys);
  router_.send_last();
  EXPECT_EQ(turn_.entries_count(), 1U);
  EXPECT_EQ(turn_.entries()[0].cost, 1U);
  EXPECT_EQ(turn_.places()[0], 1U);
  const ShardMessage* const message = sent_to_1();
  EXPECT_EQ(message->entries(0, 3)[2].cost, 3U);
  EXPECT_EQ(message->places(0, 3)[2], 3U);
}

TEST_F(EntryRouterTest, a_lone_entry_needs_no_owners_found_before) {
  const Keys here = keys_of("0"), there = keys_of("1");
  ASSERT_TRUE(router_.has_lone_room(here.text));
  add_detailed(here);
  router_.send_lone();
  EXPECT_EQ(turn_.entries_count(), 1U);
  add_detailed(there);
  router_.send_lone();
  EXPECT_EQ(turn_.entries_count(), 1U);
  EXPECT_TRUE(sent_to_1()->parts()[0].is_whole);
}

TEST_F(EntryRouterTest, has_no_room_for_a_shard_that_has_all_messages) {
  const Keys both = keys_of("01"), here = keys_of("0"), there = keys_of("1111");
  ASSERT_TRUE(router_.has_room(there.column(), Form::plain));
  router_.add({.id = 1}, there.column());
  EXPECT_FALSE(router_.has_room(both.column(), Form::plain));
  EXPECT_FALSE(router_.has_lone_room(keys_of("1").text));
  EXPECT_TRUE(router_.has_lone_room(here.text));
  EXPECT_TRUE(router_.has_room(here.column(), Form::plain));
}

TEST_F(EntryRouterTest, an_empty_request_stays) {
  ASSERT_TRUE(router_.has_room({}, Form::plain));
  router_.add({.id = 1}, {});
  EXPECT_EQ(turn_.requests().size(), 1U);
  ASSERT_TRUE(router_.has_room({}, Form::detailed));
  turn_.add({.id = 2}, 0);
  router_.send_last();
  EXPECT_EQ(turn_.requests().size(), 2U);
}

}  // namespace
}  // namespace sluice::route
