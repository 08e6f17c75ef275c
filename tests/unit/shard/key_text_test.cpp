// Texts are returned as stored, room is used again, and a full arena refuses texts.
#include "shard/key_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::shard {
namespace {

TEST(KeyText, returns_texts_as_stored) {
  KeyText text(4, 65'535);
  const std::string longest(65'535, 'x');
  const auto first = text.store("a");
  const auto second = text.store(longest);
  const auto third = text.store(std::string_view("\0b", 2));
  EXPECT_EQ(text.text(first), "a");
  EXPECT_EQ(text.text(second), longest);
  EXPECT_EQ(text.text(third), std::string_view("\0b", 2));
  EXPECT_EQ(text.records_count(), 3U);
}

// Stores `what` until there is no room; returns the first of them.
KeyText::Reference fill(KeyText& text, std::string_view what) {
  const auto first = text.store(what);
  while (text.store(what) != KeyText::none) {
  }
  return first;
}

TEST(KeyText, uses_room_again) {
  KeyText text(2, 1'000);
  const std::string longest(1'000, 'a');
  const auto first = fill(text, longest);
  EXPECT_GE(text.records_count(), 2U);
  text.free(first);
  EXPECT_EQ(text.store(std::string(1'000, 'b')), first);
  EXPECT_EQ(text.text(first), std::string(1'000, 'b'));
}

TEST(KeyText, cuts_a_long_record_for_short_keys) {
  KeyText text(2, 1'000);
  const auto first = fill(text, std::string(1'000, 'a'));
  fill(text, "x");  // no fresh room is left either
  text.free(first);
  const auto one = text.store("one");
  const auto two = text.store("two");
  EXPECT_EQ(one, first);
  EXPECT_NE(two, KeyText::none);
  EXPECT_EQ(text.text(one), "one");
  EXPECT_EQ(text.text(two), "two");
}

// One byte has a length up to 254, three bytes have the others.
TEST(KeyText, keeps_texts_of_every_length) {
  KeyText text(8, 65'535);
  std::vector<std::pair<KeyText::Reference, std::string>> kept;
  for (const size_t bytes : {1U, 2U, 254U, 255U, 256U, 1'000U, 65'534U, 65'535U}) {
    kept.emplace_back(text.store(std::string(bytes, 'k')), std::string(bytes, 'k'));
  }
  for (const auto& [reference, wanted] : kept) EXPECT_EQ(text.text(reference), wanted);
  for (const auto& [reference, wanted] : kept) text.free(reference);
}

TEST(KeyText, begins_anew_once_it_is_empty) {
  KeyText text(2, 10);
  const auto first = text.store("x");
  const auto second = text.store("y");
  text.free(first);
  text.free(second);
  EXPECT_NE(text.store("0123456789"), KeyText::none);
  EXPECT_NE(text.store("abcdefghij"), KeyText::none);
}

}  // namespace
}  // namespace sluice::shard
