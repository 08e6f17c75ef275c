// Goal: the writer writes the same JSON as the JSON library.
// Method: numbers at their bounds, and nesting of every kind, compared with the library.
#include "text/json_writer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::text {
namespace {

template <typename Value>
std::string written(const Value& value) {
  std::string text;
  JsonWriter{text}.value(value);
  return text;
}

TEST(JsonWriter, writes_numbers_up_to_their_bounds) {
  EXPECT_EQ(written(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(uint8_t{7}), "7");
  EXPECT_EQ(written(0U), "0");
}

TEST(JsonWriter, writes_bool_and_null_as_words) {
  EXPECT_EQ(written(true), "true");
  EXPECT_EQ(written(false), "false");
  EXPECT_EQ(written(nullptr), "null");
  EXPECT_EQ(written("null"), "\"null\"");
}

void write_sample(JsonWriter<std::string>& json) {
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
  json.escaped_name("a \"name\"");
  json.open_object();
  json.field("x", "y");
  json.close_object();
  json.name("last");
  json.written("null");
  json.close_object();
}

constexpr const char* sample_text =
    R"({"first":1,"list":["ends with {","ends with :",{},[]],"a \"name\"":{"x":"y"},"last":null})";

TEST(JsonWriter, separates_items_with_commas) {
  std::string text;
  JsonWriter json{text};
  write_sample(json);
  EXPECT_EQ(text, sample_text);
}

TEST(JsonWriter, indents_as_the_library_does) {
  std::string text;
  JsonWriter json{text, {.pretty = true}};
  write_sample(json);
  EXPECT_EQ(text, nlohmann::ordered_json::parse(sample_text).dump(2));
}

TEST(JsonWriter, continues_the_output_of_another_writer) {
  for (const bool pretty : {false, true}) {
    const JsonStyle style{.escapes = Escapes::plain, .pretty = pretty};
    std::string text;
    JsonWriter begin{text, style};
    begin.open_object();
    begin.name("keys");
    begin.open_object();
    bool first = true;
    for (const char* name : {"a", "b"}) {
      JsonWriter next{text, style, 2, first};
      next.field(name, 1);
      first = false;
    }
    JsonWriter end{text, style, 2, first};
    end.close_object();
    end.close_object();
    const auto expected = nlohmann::ordered_json::parse(R"({"keys": {"a": 1, "b": 1}})");
    EXPECT_EQ(text, expected.dump(pretty ? 2 : -1));
  }
}

struct Buffer {
  void text(std::string_view piece) noexcept { all += piece; }
  std::string all;
};

TEST(JsonWriter, writes_to_any_buffer) {
  Buffer buffer;
  JsonWriter json{buffer, {.escapes = Escapes::html}};
  json.value("<");
  EXPECT_EQ(buffer.all, R"("\u003c")");
}

}  // namespace
}  // namespace sluice::text
