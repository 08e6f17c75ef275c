// Texts come back as stored, room is used again, and a full arena says so.
#include "shard/key_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::shard {
namespace {

TEST(KeyText, gives_texts_back_as_stored) {
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

TEST(KeyText, uses_room_again) {
  KeyText text(2, 10);
  const auto first = text.store("0123456789");
  text.store("abcdefghij");
  EXPECT_EQ(text.store("one more"), KeyText::none);
  text.give_back(first);
  EXPECT_EQ(text.store("9876543210"), first);
  EXPECT_EQ(text.text(first), "9876543210");
}

TEST(KeyText, begins_anew_once_it_is_empty) {
  KeyText text(2, 10);
  const auto first = text.store("x");
  const auto second = text.store("y");
  text.give_back(first);
  text.give_back(second);
  EXPECT_NE(text.store("0123456789"), KeyText::none);
  EXPECT_NE(text.store("abcdefghij"), KeyText::none);
}

}  // namespace
}  // namespace sluice::shard
