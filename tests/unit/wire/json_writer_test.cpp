// Goal: what is written is what the JSON library would have written.
// Method: texts of all kinds, numbers at their bounds, and nesting, held against the library.
#include "wire/json_writer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "policy/json_text.hpp"

namespace sluice::wire {
namespace {

template <typename Value>
std::string written(const Value& value) {
  std::string text;
  JsonWriter{text}.value(value);
  return text;
}

TEST(JsonWriter, escapes_texts_as_the_library_does) {
  for (int c = 0; c < 256; ++c) {
    const std::string text{'a', static_cast<char>(c), 'z'};
    EXPECT_EQ(written(text), policy::one_line(policy::Json(text))) << c;
  }
  for (const char* text : {"", "plain", "\"", "a\\b", "<&>", "\xC3\xA4", "\xE2\x80\xA8", "\xC3"}) {
    EXPECT_EQ(written(std::string_view{text}), policy::one_line(policy::Json(text))) << text;
  }
}

TEST(JsonWriter, writes_numbers_up_to_their_bounds) {
  EXPECT_EQ(written(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(uint8_t{7}), "7");
  EXPECT_EQ(written(0U), "0");
}

TEST(JsonWriter, tells_truth_values_and_null_from_numbers_and_texts) {
  EXPECT_EQ(written(true), "true");
  EXPECT_EQ(written(false), "false");
  EXPECT_EQ(written(nullptr), "null");
  EXPECT_EQ(written("null"), "\"null\"");
}

TEST(JsonWriter, separates_what_stands_side_by_side) {
  std::string text;
  JsonWriter json{text};
  json.open_object();
  json.field("first", 1);
  json.name("list");
  json.open_array();
  json.value("ends with {");
  json.value("ends with :");
  json.open_object();
  json.close_object();
  json.open_array();
  json.close_array();
  json.close_array();
  json.name("last");
  json.written("[1,2]");
  json.close_object();
  EXPECT_EQ(text, R"({"first":1,"list":["ends with {","ends with :",{},[]],"last":[1,2]})");
}

}  // namespace
}  // namespace sluice::wire
