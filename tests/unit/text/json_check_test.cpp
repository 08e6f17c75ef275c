// Goal: a text is JSON here if it is for another reader, however it is cut into pieces.
// Method: nlohmann's parser judges the same texts: hand-made ones, and JSON with random damage.
#include "text/json_check.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {
namespace {

bool is_json(std::string_view text, size_t piece_bytes = 1'000'000) {
  JsonCheck check;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_bytes);
    text.remove_prefix(piece.size());
    if (!check.add(piece)) {
      EXPECT_FALSE(check.is_whole());
      EXPECT_FALSE(check.add("")) << "it stays refused";
      return false;
    }
  }
  return check.is_whole();
}

TEST(JsonCheck, judges_as_another_parser) {
  const std::vector<std::string> texts{
      "{}", "[]", " {\"a\" : [1, -2.5e+3, 0, 0.5, 1E9, -0], \"b\":{}}\n", "\"x\"", "17", "-0.5e-7",
      "true", "false", "null", "[true,false,null]", "[[],{},[{\"\":[]}]]", "\"\\\"\\\\\\/\\b\\n\"",
      "\"\\u00e5\\uABCD\"", "\"\xc3\xa5\xe2\x82\xac\xf0\x9f\x9a\xa6\"", "\t[\r\n1\n]\r\n",
      // Not JSON:
      "", " ", "{", "}", "]", "[", "{]", "[}", "{}}", "[]]", "{}{}", "1 2", "[1,]", "[,1]", "[1 2]",
      "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\" 1}", "{1:2}", "{\"a\":1 \"b\":2}", ",",
      "[1}", "{\"a\":1]", "tru", "truee", "nul", "fals]", "True", "01", "-", "-a", "1.", ".5",
      "1.e5", "1e", "1e+", "1e5.5", "+1", "0x1", "1a", "--1", "\"", "\"a", "\"\\", "\"\\x\"",
      "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "'a'", "\"\x80\"", "\"\xc3\"", "\"\xc3\"\"",
      "\"\xc0\x80\"", "\"\xe0\x80\x80\"", "\"\xed\xa0\x80\"", "\"\xf0\x80\x80\x80\"",
      "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"a\":1", "{\"a\":1}:", "a",
      std::string("{\0}", 3)};
  for (const std::string& text : texts) {
    EXPECT_EQ(is_json(text), nlohmann::json::accept(text)) << text;
    EXPECT_EQ(is_json(text, 1), nlohmann::json::accept(text)) << text << ", byte by byte";
  }
}

TEST(JsonCheck, judges_damaged_texts_as_another_parser) {
  const std::string intact =
      "{\"Instances\":{\"user:\xc3\xa5\":{\"n\":[0,-12.5e3,1e-9,true],\"x\":null,\"\":\"\\u00e5\\n "
      "\xf0\x9f\x9a\xa6\"}},\"a\":[[],{},false]}";
  ASSERT_TRUE(is_json(intact));
  constexpr std::string_view bytes = "{}[]\":,\\ue0-+.1 tn\n\x80\xc3\xff";
  std::mt19937 random(1);
  uint32_t accepted = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    std::string text = intact;
    for (uint32_t damages = 1 + random() % 3; damages > 0; --damages) {
      const size_t at = random() % text.size();
      const char byte = bytes[random() % bytes.size()];
      if (random() % 3 == 0)
        text.erase(at, 1);
      else if (random() % 2 == 0)
        text.insert(at, 1, byte);
      else
        text[at] = byte;
    }
    const bool expected = nlohmann::json::accept(text);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(is_json(text, 1 + random() % text.size()), expected) << text;
  }
  EXPECT_GT(accepted, 500u) << "too little of the damage leaves JSON";
}

TEST(JsonCheck, refuses_what_is_too_deep) {
  const auto nested = [](uint32_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(is_json(nested(JsonCheck::depth_max)));
  EXPECT_FALSE(is_json(nested(JsonCheck::depth_max + 1)));
}

}  // namespace
}  // namespace sluice::text
