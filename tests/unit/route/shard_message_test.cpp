// A message has the entries of its parts in order, in runs of one form, with their keys.
#include "route/shard_message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/route/message_memory.hpp"

namespace sluice::route {
namespace {

class ShardMessageTest : public ::testing::Test {
 protected:
  void add_plain(const std::string& text, const std::vector<uint16_t>& sizes) {
    message_.begin_part(7, Form::plain, static_cast<uint32_t>(sizes.size()), true);
    message_.add(KeyColumn{.text = text, .sizes = sizes});
  }
  void add_detailed(const api::Entry& entry, uint32_t place = 0) {
    message_.begin_part(8, Form::detailed, 1, false);
    message_.add(entry, place);
  }

  MessageMemory memory_{1, 8};
  ShardMessage message_{8, memory_.data()};
};

TEST_F(ShardMessageTest, has_the_text_and_the_sizes_of_plain_keys) {
  add_plain("abbccc", {1, 2, 3});
  add_plain("d", {1});
  ASSERT_EQ(message_.runs().size(), 1U);
  EXPECT_EQ(message_.runs()[0].entries_count, 4U);
  EXPECT_EQ(message_.text_from(message_.runs()[0].text_begin), "abbcccd");
  EXPECT_EQ(message_.key_sizes(0, 4)[2], 3U);
  ASSERT_EQ(message_.parts().size(), 2U);
  EXPECT_EQ(message_.parts()[1].first_entry, 3U);
}

// Of short keys and long ones, which are copied in different ways.
TEST_F(ShardMessageTest, a_part_that_is_not_whole_has_the_keys_at_its_places) {
  std::string text;
  std::vector<uint16_t> sizes;
  std::vector<uint32_t> begins;
  for (const size_t size : {3U, 8U, 15U, 16U, 17U, 32U, 33U, 100U}) {
    begins.push_back(static_cast<uint32_t>(text.size()));
    sizes.push_back(static_cast<uint16_t>(size));
    text += std::string(size - 1, static_cast<char>('a' + begins.size())) + "!";
  }
  const std::vector<uint16_t> places{1, 3, 4, 7}, others{0, 2, 5, 6};
  for (const auto& part : {places, others}) {
    message_.begin_part(7, Form::plain, 4, false);
    message_.add(KeyColumn{.text = text, .sizes = sizes}, begins, part);
  }
  std::string expected;
  for (const size_t place : {1U, 3U, 4U, 7U, 0U, 2U, 5U, 6U}) {
    expected += text.substr(begins[place], sizes[place]);
  }
  EXPECT_EQ(message_.text_from(0), expected);
  EXPECT_EQ(message_.key_sizes(0, 8)[3], 100U);
  EXPECT_EQ(message_.places(0, 8)[3], 7U);
  EXPECT_EQ(message_.places(0, 8)[4], 0U);
}

TEST_F(ShardMessageTest, has_the_hashes_of_keys_by_handle) {
  std::string text = "heldtoo";
  std::vector<uint16_t> sizes{4, 3};
  std::vector<api::KeyHash> hashes{{.tag = 5, .position = 6}, {.tag = 7, .position = 8}};
  message_.begin_part(7, Form::hashed, 2, false);
  message_.add({.text = text, .sizes = sizes, .hashes = hashes}, std::vector<uint16_t>{3, 9});
  EXPECT_EQ(message_.runs()[0].form, Form::hashed);
  EXPECT_EQ(message_.text_from(0), "heldtoo");
  EXPECT_EQ(message_.key_sizes(0, 2)[1], 3U);
  EXPECT_EQ(message_.hashes(0, 2)[1], (api::KeyHash{.tag = 7, .position = 8}));
  EXPECT_EQ(message_.places(0, 2)[1], 9U);
}

// The request's columns are free, or the next request's, before the owner reads the message.
TEST_F(ShardMessageTest, copies_plain_keys) {
  std::string text = "firstkey";
  std::vector<uint16_t> sizes{5, 3};
  add_plain(text, sizes);
  text.assign(text.size(), '#');
  sizes = {9, 9};
  EXPECT_EQ(message_.text_from(0), "firstkey");
  EXPECT_EQ(message_.key_sizes(0, 2)[1], 3U);
}

TEST_F(ShardMessageTest, copies_keys_by_handle) {
  std::string text = "heldtoo";
  std::vector<uint16_t> sizes{4, 3}, places{3, 9};
  std::vector<api::KeyHash> hashes{{.tag = 5, .position = 6}, {.tag = 7, .position = 8}};
  message_.begin_part(7, Form::hashed, 2, false);
  message_.add({.text = text, .sizes = sizes, .hashes = hashes}, places);
  text.assign(text.size(), '#');
  sizes = places = {0, 0};
  hashes = {{}, {}};
  EXPECT_EQ(message_.text_from(0), "heldtoo");
  EXPECT_EQ(message_.key_sizes(0, 2)[0], 4U);
  EXPECT_EQ(message_.hashes(0, 2)[0], (api::KeyHash{.tag = 5, .position = 6}));
  EXPECT_EQ(message_.places(0, 2)[0], 3U);
}

TEST_F(ShardMessageTest, each_change_of_form_begins_a_run) {
  const std::string key = "detailed";
  add_plain("a", {1});
  add_detailed({.key_data = key.data(), .key_bytes = 8});
  add_plain("bc", {1, 1});
  ASSERT_EQ(message_.runs().size(), 3U);
  EXPECT_EQ(message_.runs()[1].form, Form::detailed);
  EXPECT_EQ(message_.runs()[2].first_entry, 2U);
  EXPECT_EQ(message_.text_from(message_.runs()[2].text_begin), "bc");
}

TEST_F(ShardMessageTest, copies_keys_and_overrides_of_detailed_entries) {
  std::string key = "first";
  api::Overrides given{.max_requests = 5, .window_ms = 60'000};
  add_detailed({.key_data = key.data(), .cost = 3, .key_bytes = 5, .given_overrides = &given}, 4);
  add_detailed({}, 9);  // for a handle that is not held
  key = "other";        // like a receive buffer
  given = {};
  const auto entries = message_.entries(0, 2);
  EXPECT_EQ(entries[0].key(), "first");
  EXPECT_EQ(entries[0].cost, 3U);
  EXPECT_EQ(entries[0].overrides(), (api::Overrides{.max_requests = 5, .window_ms = 60'000}));
  EXPECT_EQ(entries[1].key(), "");
  EXPECT_EQ(entries[1].given_overrides, nullptr);
  EXPECT_EQ(message_.places(0, 2)[1], 9U);
}

TEST_F(ShardMessageTest, copies_the_correlation_id_of_a_detailed_entry) {
  std::string id = "c-17";
  const api::Overrides given{.correlation_id = id};
  const api::Entry entry{.key_data = "k", .key_bytes = 1, .given_overrides = &given};
  add_detailed(entry);
  add_detailed(entry);
  id = "gone";
  for (const api::Entry& copy : message_.entries(0, 2)) {
    EXPECT_EQ(copy.key(), "k");
    EXPECT_EQ(copy.overrides().correlation_id, "c-17");
  }
}

TEST_F(ShardMessageTest, an_empty_one_takes_any_part_and_another_only_what_fits) {
  EXPECT_TRUE(message_.has_room(limits::frame_entries_max, ShardMessage::text_bytes_max));
  add_plain("abc", {1, 1, 1});
  EXPECT_TRUE(message_.has_room(5, 10));
  EXPECT_FALSE(message_.has_room(6, 10));
  EXPECT_FALSE(message_.has_room(1, ShardMessage::text_bytes_max - 2));
  EXPECT_FALSE(message_.is_full());
  add_plain("abcde", {1, 1, 1, 1, 1});
  EXPECT_TRUE(message_.is_full());
  message_.clear();
  EXPECT_TRUE(message_.has_room(limits::frame_entries_max, 0));
  EXPECT_TRUE(message_.runs().empty());
}

// What is not full takes any one entry.
TEST_F(ShardMessageTest, is_full_when_the_longest_key_might_not_fit) {
  const std::string text(ShardMessage::text_bytes_max - ShardMessage::lone_text_bytes_max, 'k');
  std::vector<uint16_t> sizes(1, 0);
  add_plain(text, sizes);
  EXPECT_FALSE(message_.is_full());
  add_plain("k", {1});
  EXPECT_TRUE(message_.is_full());
}

}  // namespace
}  // namespace sluice::route
