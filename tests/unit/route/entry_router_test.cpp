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
      } while (mailboxes_.shard_of(key) != owner - '0');
      keys.text += key;
      keys.sizes.push_back(static_cast<uint16_t>(key.size()));
    }
    return keys;
  }
  static api::Entry entry_of(const Keys& keys) {
    return {.key_data = keys.text.data(), .key_bytes = keys.sizes[0]};
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
  EntryRouter router_{mailboxes_, turn_, {}, 10};
};

TEST_F(EntryRouterTest, keys_of_this_shard_stay_in_the_turn) {
  const Keys keys = keys_of("00");
  ASSERT_TRUE(router_.find_room(keys.column(), Form::plain));
  router_.add({.id = 3}, keys.column());
  EXPECT_EQ(turn_.entries_count(), 2U);
  EXPECT_EQ(turn_.requests()[0].split, Request::whole);
  EXPECT_EQ(turn_.entries()[1].key().data(), keys.text.data() + keys.sizes[0]);
  EXPECT_EQ(router_.book().open_count(), 0U);
  EXPECT_EQ(sent_to_1(), nullptr);
}

TEST_F(EntryRouterTest, a_request_for_one_other_shard_leaves_as_a_whole) {
  const Keys keys = keys_of("111");
  ASSERT_TRUE(router_.find_room(keys.column(), Form::plain));
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
  ASSERT_TRUE(router_.find_room(keys.column(), Form::plain));
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
  ASSERT_TRUE(router_.find_room(keys.column(), Form::detailed));
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
  ASSERT_TRUE(router_.find_lone_room(entry_of(here)));
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
  ASSERT_TRUE(router_.find_room(there.column(), Form::plain));
  router_.add({.id = 1}, there.column());
  EXPECT_FALSE(router_.find_room(both.column(), Form::plain));
  const Keys other = keys_of("1");
  EXPECT_FALSE(router_.find_lone_room(entry_of(other)));
  EXPECT_TRUE(router_.find_lone_room(entry_of(here)));
  EXPECT_TRUE(router_.find_room(here.column(), Form::plain));
  EXPECT_EQ(router_.refusals().no_message, 2U);
  EXPECT_EQ(router_.refusals().no_answer_room, 0U);
}

TEST_F(EntryRouterTest, has_no_room_for_a_shard_that_owes_too_many_answers) {
  EntryRouter router(mailboxes_, turn_, {.answer_bytes_max = 1}, 0);
  const Keys both = keys_of("01"), here = keys_of("0"), there = keys_of("1");
  ASSERT_TRUE(router.find_room(both.column(), Form::plain));
  router.add({.id = 1}, both.column());
  EXPECT_FALSE(router.find_room(both.column(), Form::plain));
  EXPECT_EQ(router.refusals().no_answer_room, 1U);
  EXPECT_TRUE(router.find_room(there.column(), Form::plain)) << "its answers stay in the message";
  EXPECT_TRUE(router.find_room(here.column(), Form::plain));
  EXPECT_EQ(router.refusals().no_answer_room, 1U);
  EXPECT_EQ(router.refusals().no_message, 0U);
}

class EntryRouterHandleTest : public EntryRouterTest {
 protected:
  // Handles 0, 1, ... of keys of these shards.
  std::vector<api::Handle> handles_of(std::string_view owners) {
    std::vector<api::Handle> handles;
    for (const char owner : owners) {
      const auto handle = static_cast<api::Handle>(texts_.size());
      texts_.push_back(keys_of(std::string(1, owner)).text);
      router_.set_handle(handle, texts_.back());
      EXPECT_EQ(router_.owns(handle), owner == '0');
      handles.push_back(handle);
    }
    return handles;
  }
  size_t find(const std::vector<api::Handle>& handles) {
    return router_.find_keys(
        handles, [this](std::span<const api::Handle> others, const api::HeldKeys& keys) {
          ++lookups_count_;
          size_t bytes = 0;
          for (size_t i = 0; i < others.size(); ++i) {
            const std::string& text = texts_[others[i]];
            text.copy(keys.text.data() + bytes, text.size());
            bytes += text.size();
            keys.sizes[i] = static_cast<uint16_t>(text.size());
            keys.hashes[i] = {.tag = others[i] + 1U, .position = 7};
          }
          return bytes;
        });
  }

  std::vector<std::string> texts_;
  int lookups_count_ = 0;
};

TEST_F(EntryRouterHandleTest, handles_of_this_shard_stay_together) {
  const auto handles = handles_of("00");
  EXPECT_EQ(find(handles), 0U);
  EXPECT_EQ(lookups_count_, 0) << "their connection may hold handles of other shards, too";
  ASSERT_TRUE(router_.find_room_for_keys(handles.size()));
  router_.add({.id = 1}, handles);
  EXPECT_EQ(turn_.requests()[0].split, Request::whole);
  EXPECT_EQ(turn_.handles()[1], 1U);
  EXPECT_EQ(sent_to_1(), nullptr);
}

TEST_F(EntryRouterHandleTest, handles_of_this_shard_stay_behind_some_of_others) {
  const auto others = handles_of("101");
  const auto own = handles_of("000");
  find(others);
  ASSERT_TRUE(router_.find_room_for_keys(others.size()));
  router_.add({.id = 1}, others);
  EXPECT_EQ(find(own), 0U);
  ASSERT_TRUE(router_.find_room_for_keys(own.size()));
  router_.add({.id = 2}, own);
  EXPECT_EQ(turn_.requests()[1].split, Request::whole);
  EXPECT_EQ(turn_.requests()[1].entries_count, 3U);
  EXPECT_EQ(sent_to_1()->entries_count(), 2U);
}

TEST_F(EntryRouterHandleTest, others_leave_with_their_texts_hashes_and_places) {
  const auto handles = handles_of("0110");
  EXPECT_EQ(find(handles), texts_[1].size() + texts_[2].size());
  ASSERT_TRUE(router_.find_room_for_keys(handles.size()));
  router_.add({.id = 1}, handles);
  ASSERT_EQ(turn_.requests().size(), 1U);
  EXPECT_TRUE(turn_.requests()[0].by_handle);
  EXPECT_EQ(turn_.handles()[1], 3U);
  EXPECT_EQ(turn_.places()[1], 3U);
  const ShardMessage* const message = sent_to_1();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->runs()[0].form, Form::hashed);
  EXPECT_EQ(message->text_from(0), texts_[1] + texts_[2]);
  EXPECT_EQ(message->hashes(0, 2)[1].tag, 3U);
  EXPECT_EQ(message->places(0, 2)[1], 2U);
  EXPECT_EQ(message->key_sizes(0, 2)[0], texts_[1].size());
}

// Its number may become another key's.
TEST_F(EntryRouterHandleTest, a_handle_has_the_owner_of_its_last_key) {
  const auto handles = handles_of("1");
  EXPECT_FALSE(router_.owns(handles[0]));
  router_.set_handle(handles[0], keys_of("0").text);
  EXPECT_TRUE(router_.owns(handles[0]));
}

TEST_F(EntryRouterHandleTest, has_no_room_for_a_shard_that_has_all_messages) {
  const auto handles = handles_of("111101");
  find(handles);
  router_.add({.id = 1}, handles);
  find({handles[0]});
  EXPECT_FALSE(router_.find_room_for_keys(1));
  find({handles[4]});
  EXPECT_TRUE(router_.find_room_for_keys(1));
}

TEST_F(EntryRouterTest, the_empty_key_is_refused_here) {
  const std::vector<uint16_t> sizes{0, 0};
  const KeyColumn keys{.text = "", .sizes = sizes};
  ASSERT_TRUE(router_.find_room(keys, Form::plain));
  router_.add({.id = 1}, keys);
  EXPECT_EQ(turn_.entries_count(), 2U);
}

TEST_F(EntryRouterTest, an_empty_request_stays) {
  ASSERT_TRUE(router_.find_room({}, Form::plain));
  router_.add({.id = 1}, KeyColumn{});
  EXPECT_EQ(turn_.requests().size(), 1U);
  ASSERT_TRUE(router_.find_room({}, Form::detailed));
  turn_.add({.id = 2}, 0);
  router_.send_last();
  EXPECT_EQ(turn_.requests().size(), 2U);
}

}  // namespace
}  // namespace sluice::route
