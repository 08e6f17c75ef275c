// Goal: numbers become text and text becomes numbers, up to their bounds. Method: values at both
// sides of each rule.
#include "text/number.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::text {
namespace {

TEST(Number, writes_digits_up_to_its_bounds) {
  DigitBuffer buffer;
  EXPECT_EQ(digits(std::numeric_limits<uint64_t>::max(), buffer), "18446744073709551615");
  EXPECT_EQ(digits(std::numeric_limits<int64_t>::min(), buffer), "-9223372036854775808");
  EXPECT_EQ(digits(uint8_t{7}, buffer), "7");
  EXPECT_EQ(digits(0, buffer), "0");
  EXPECT_EQ(hex_digits(UINT64_MAX, buffer), "ffffffffffffffff");
}

TEST(Number, reads_only_whole_texts) {
  EXPECT_EQ(parse_whole<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_whole<int64_t>("-7"), -7);
  EXPECT_EQ(parse_whole<uint32_t>("ff", 16), 255u);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "4294967296"}) {
    EXPECT_EQ(parse_whole<uint32_t>(text), std::nullopt) << text;
  }
}

TEST(Number, writes_ids_with_sixteen_digits) {
  EXPECT_EQ(hex_id(0), "0000000000000000");
  EXPECT_EQ(hex_id(0x00AB'0000'0000'000F), "00ab00000000000f");
  EXPECT_EQ(parse_hex_id("00ab00000000000f"), 0x00AB'0000'0000'000FU);
  EXPECT_EQ(parse_hex_id(hex_id(UINT64_MAX)), UINT64_MAX);
  for (const char* text : {"", "1", "00AB00000000000F", "00ab00000000000g", "000ab00000000000f",
                           "-0ab00000000000f", "0x00000000000001"}) {
    EXPECT_EQ(parse_hex_id(text), std::nullopt) << text;
  }
}

TEST(Number, reads_hex_digits) {
  EXPECT_EQ(hex_digit('0'), 0);
  EXPECT_EQ(hex_digit('f'), 15);
  EXPECT_EQ(hex_digit('F'), 15);
  for (const char c : {'g', 'G', '/', ':', '@', '\0', '\xFF'}) EXPECT_EQ(hex_digit(c), -1);
}

TEST(Number, reads_32_bits) {
  EXPECT_EQ(parse_int32("2147483647"), 2147483647);
  EXPECT_EQ(parse_int32("-2147483648"), -2147483647 - 1);
  EXPECT_EQ(parse_int32("+007"), 7);
  for (const char* text : {"", "+", "-", "2147483648", "-2147483649", "1 ", " 1", "0x1", "1.0"}) {
    EXPECT_EQ(parse_int32(text), std::nullopt) << text;
  }
}

TEST(Number, reads_64_bits) {
  EXPECT_EQ(parse_int64("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_int64("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_int64("+007"), 7);
  for (const char* text : {"", "+", "-", "+-7", "++7", "9223372036854775808", "1 ", " 1", "0x1"}) {
    EXPECT_EQ(parse_int64(text), std::nullopt) << text;
  }
}

TEST(Number, reads_bool) {
  EXPECT_EQ(parse_bool("True"), true);
  EXPECT_EQ(parse_bool("F"), false);
  EXPECT_EQ(parse_bool(""), std::nullopt);
  EXPECT_EQ(parse_bool("yes"), std::nullopt);
}

}  // namespace
}  // namespace sluice::text
