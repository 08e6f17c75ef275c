// Goal: a JSON string reads back as its text, and has the escapes that the caller chose.
// Method: every byte and samples of every kind of character, read back by the JSON library.
#include "text/json_string.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::text {
namespace {

std::string escaped(std::string_view text, Escapes escapes) {
  std::string all;
  for (JsonStringPieces pieces{text, escapes}; !pieces.is_done();) all += pieces.next();
  return all;
}

TEST(JsonString, reads_back_as_its_text) {
  for (const Escapes escapes : {Escapes::plain, Escapes::html, Escapes::ascii}) {
    for (int c = 0; c < 128; ++c) {
      const std::string text{'a', static_cast<char>(c), 'z'};
      EXPECT_EQ(nlohmann::json::parse('"' + escaped(text, escapes) + '"'), text) << c;
    }
    for (const std::string text : {"", "\u00e4", "\u2027\u2028\u2029\u202a", "\uffff",
                                   "\U00010000x", "\U0010ffff", "a\u20ac\n\u20ac"}) {
      EXPECT_EQ(nlohmann::json::parse('"' + escaped(text, escapes) + '"'), text) << text;
    }
  }
}

TEST(JsonString, escapes_as_go_does) {
  EXPECT_EQ(escaped("a\"\\\b\f\n\r\t", Escapes::plain), R"(a\"\\\b\f\n\r\t)");
  EXPECT_EQ(escaped(std::string_view{"\0\x1F\x7F", 3}, Escapes::plain), "\\u0000\\u001f\x7F");
  EXPECT_EQ(escaped("\u2028\u2029\u00e4", Escapes::plain), "\\u2028\\u2029\u00e4");
  EXPECT_EQ(escaped("<a&b>", Escapes::plain), "<a&b>");
  EXPECT_EQ(escaped("<a&b>", Escapes::html), R"(\u003ca\u0026b\u003e)");
}

TEST(JsonString, replaces_each_byte_that_is_not_utf8) {
  for (const Escapes escapes : {Escapes::plain, Escapes::html, Escapes::ascii}) {
    EXPECT_EQ(escaped("\xFF", escapes), R"(\ufffd)");
    EXPECT_EQ(escaped("a\xE2\x82z\xC3", escapes), R"(a\ufffd\ufffdz\ufffd)");
  }
}

TEST(JsonString, ascii_escapes_all_but_printable_ascii) {
  EXPECT_EQ(escaped("~\x7F\u00e4\U0001f6a6<", Escapes::ascii), R"(~\u007f\u00e4\ud83d\udea6<)");
}

TEST(JsonString, plain_text_is_one_piece) {
  JsonStringPieces pieces{"user:1 \u00e4", Escapes::html};
  EXPECT_EQ(pieces.next(), "user:1 \u00e4");
  EXPECT_TRUE(pieces.is_done());
}

}  // namespace
}  // namespace sluice::text
