// Goal: characters are cut as Go cuts them. Method: both sides of every bound of UTF-8.
#include "text/utf8.hpp"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

TEST(Utf8, reads_characters_of_one_to_four_bytes) {
  for (const auto& [text, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"a", 0x61},
                                                               {"\x7F", 0x7F},
                                                               {"\xC2\x80", 0x80},
                                                               {"\xDF\xBF", 0x7FF},
                                                               {"\xE0\xA0\x80", 0x800},
                                                               {"\xED\x9F\xBF", 0xD7FF},
                                                               {"\xEE\x80\x80", 0xE000},
                                                               {"\xEF\xBF\xBF", 0xFFFF},
                                                               {"\xF0\x90\x80\x80", 0x10000},
                                                               {"\xF4\x8F\xBF\xBF", 0x10FFFF}}) {
    const Character character = first_character(text);
    EXPECT_EQ(character.value, value) << text;
    EXPECT_EQ(character.bytes, std::string_view{text}.size()) << text;
    EXPECT_TRUE(is_utf8(std::string{text} + "z"));
  }
}

TEST(Utf8, refuses_one_byte_of_an_invalid_sequence) {
  for (const char* text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF",
                           "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x9A",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(first_character(text).value, std::nullopt) << text;
    EXPECT_EQ(first_character(text).bytes, 1u) << text;
    EXPECT_FALSE(is_utf8(std::string{"a"} + text)) << text;
  }
  EXPECT_TRUE(is_utf8(""));
}

}  // namespace
}  // namespace sluice::text
