// Goal: the small grammars accept the same bytes as Go. Method: values at both sides of each rule;
// http_codec_test.cpp has whole requests.
#include "wire/http_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::wire {
namespace {

TEST(HttpText, knows_the_77_token_characters) {
  int count = 0;
  for (int c = -128; c < 128; ++c) count += is_token_char(static_cast<char>(c)) ? 1 : 0;
  EXPECT_EQ(count, 77);
  for (char c : std::string_view{"\"(),/:;<=>?@[\\]{} \t\x7F\xFF"}) EXPECT_FALSE(is_token_char(c));
}

TEST(HttpText, knows_field_characters) {
  EXPECT_TRUE(is_field_char('\t'));
  EXPECT_TRUE(is_field_char(' '));
  EXPECT_TRUE(is_field_char('\x80'));
  for (char c : {'\0', '\r', '\n', '\x1F', '\x7F'}) EXPECT_FALSE(is_field_char(c));
}

TEST(HttpText, decodes_base64_of_urls) {
  EXPECT_EQ(decode_base64url(""), "");
  EXPECT_EQ(decode_base64url("Zg"), "f");
  EXPECT_EQ(decode_base64url("Zm8"), "fo");
  EXPECT_EQ(decode_base64url("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64url("-_-_"), "\xFB\xFF\xBF");
  for (const char* text : {"Z", "Zm9v=", "Zg==", "+/+/", "Zm 9"}) {
    EXPECT_EQ(decode_base64url(text), std::nullopt) << text;
  }
}

TEST(HttpText, compares_ascii_letters_only) {
  EXPECT_TRUE(equals_ignoring_case("X-Id", "x-iD"));
  EXPECT_FALSE(equals_ignoring_case("a", "ab"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));
  EXPECT_FALSE(equals_ignoring_case("\xC4", "\xE4"));
}

TEST(HttpText, checks_escapes) {
  for (const char* text : {"", "a", "%00", "%fF%41", "a%20"}) EXPECT_TRUE(escapes_are_valid(text));
  for (const char* text : {"%", "%4", "a%", "%g0", "%0g", "%%41", "%41%4"}) {
    EXPECT_FALSE(escapes_are_valid(text)) << text;
  }
}

TEST(HttpText, decodes_escapes_and_nothing_else) {
  std::array<char, 16> memory;
  DecodeBuffer buffer{memory};
  const std::string_view plain = "a+b";
  EXPECT_EQ(buffer.percent_decode(plain)->data(), plain.data());
  EXPECT_EQ(buffer.form_decode(plain), "a b");
  EXPECT_EQ(buffer.percent_decode("%2B%2b+"), "+++");
  EXPECT_EQ(buffer.form_decode("%4"), std::nullopt);
}

TEST(HttpText, trims_to_nothing) {
  EXPECT_EQ(trim_white_space(" \t\r\n\v\f\xC2\x85\xE3\x80\x80"), "");
  EXPECT_EQ(trim_white_space(""), "");
  EXPECT_EQ(trim_white_space(" a b "), "a b");
}

TEST(HttpText, splits_a_query_into_pairs) {
  std::string_view query = "a=1&&b&=x&c=d=e&f;g=1&h=";
  std::string seen;
  while (!query.empty()) {
    const auto pair = take_query_pair(query);
    if (!pair) {
      seen += "|-";
      continue;
    }
    seen.append("|").append(pair->name).append(":").append(pair->value);
  }
  EXPECT_EQ(seen, "|a:1|-|b:|:x|c:d=e|-|h:");
}

TEST(HttpText, accepts_json_with_a_weight_above_0) {
  EXPECT_TRUE(accepts_json("application/json;q=0.001"));
  EXPECT_FALSE(accepts_json("application/json;q=0."));
}

}  // namespace
}  // namespace sluice::wire
