// Goal: trees are written as the JSON library writes them, and faults in a text are explained.
// Method: examples, compared with the library.
#include "text/json.hpp"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

const Json sample{{"text", "a\"\u00e4"},
                  {"numbers", {0, -7, UINT64_MAX, 8.5, 2.0, 1e300}},
                  {"nothing", nullptr},
                  {"truth", {true, false}},
                  {"empty", {{"object", Json::object()}, {"array", Json::array()}}}};

TEST(Json, is_written_as_the_library_writes_it) {
  EXPECT_EQ(one_line(sample), sample.dump());
  EXPECT_EQ(indented(sample), sample.dump(2));
  EXPECT_EQ(one_line(sample, Escapes::ascii), sample.dump(-1, ' ', true));
  EXPECT_EQ(one_line(Json("a\xFF")), R"("a\ufffd")");
  EXPECT_EQ(one_line(Json{{"\xFF\n", 1}}), R"({"\ufffd\n":1})");
}

TEST(Json, reads_back_what_it_writes) {
  const ParsedJson parsed = parse_json(sample.dump());
  EXPECT_EQ(parsed.complaint, "");
  EXPECT_EQ(parsed.value, sample);
  EXPECT_EQ(parse_json(sample.dump(), {}).value, sample);
  EXPECT_EQ(parse_json(" 7 ", {}).value, 7);
}

TEST(Json, complains_of_the_place_of_a_fault) {
  for (const char* text : {"{\"a\": 1,\n  2}", "", "[1", "{} x"}) {
    const std::string complaint = parse_json(text).complaint;
    EXPECT_TRUE(complaint.starts_with("not JSON, line ")) << complaint;
    EXPECT_EQ(parse_json(text, {}).complaint, complaint);
  }
  EXPECT_TRUE(parse_json("{\"a\": 1,\n  2}").complaint.starts_with("not JSON, line 2, column 3: "));
  const std::string_view with_nul{"{}\0", 3};
  EXPECT_EQ(parse_json(with_nul).complaint, "not JSON: there is a NUL byte");
  EXPECT_EQ(parse_json(with_nul, {}).complaint, "not JSON: there is a NUL byte");
}

TEST(Json, does_not_quote_all_of_what_it_cannot_read) {
  const std::string digits = "[1" + std::string(60'000, '0') + "]";
  const std::string broken = "[\"" + std::string(60'000, 'x') + "\x01\"]";
  for (const std::string& text : {digits, broken}) {
    const std::string complaint = parse_json(text).complaint;
    EXPECT_LT(complaint.size(), 210u);
    EXPECT_EQ(complaint.find("exception"), std::string::npos) << complaint;
    EXPECT_EQ(parse_json(text, {}).complaint, complaint);
  }
  EXPECT_TRUE(parse_json(digits).complaint.starts_with("not JSON: number overflow parsing '1000"));
}

TEST(Json, bounds_the_json_of_a_peer) {
  const JsonBounds bounds{.depth_max = 3, .names_max = 2};
  EXPECT_EQ(parse_json("[[[]]]", bounds).complaint, "");
  EXPECT_EQ(parse_json("[[[1]]]", bounds).complaint, "");
  EXPECT_EQ(parse_json("[[[[1]]]]", bounds).complaint, "nested too deeply");
  EXPECT_EQ(parse_json(R"({"a": 1, "b": 2})", bounds).complaint, "");
  EXPECT_EQ(parse_json(R"({"a": 1, "b": 2, "c": 3})", bounds).complaint, "too many fields");
  EXPECT_EQ(parse_json(R"([{"a": 1, "a": 2}])", bounds).complaint,
            R"("a" is given twice; give it once)");
  EXPECT_TRUE(parse_json(R"([{"a": 1, "a": 2})", bounds).complaint.starts_with("not JSON"));
  const std::string deep(1'000'000, '[');
  EXPECT_TRUE(parse_json(deep, bounds).complaint.starts_with("not JSON"));
}

TEST(Json, shows_values_briefly) {
  EXPECT_EQ(shown(Json::array({1})), "an array");
  EXPECT_EQ(shown(Json::object()), "an object");
  EXPECT_EQ(shown(Json(nullptr)), "null");
  EXPECT_EQ(shown(Json(-7)), "-7");
  EXPECT_EQ(shown(Json("a\n")), R"("a\n")");
  EXPECT_EQ(shown(Json(std::string(100, 'x'))), '"' + std::string(60, 'x') + "\u2026\"");
}

TEST(Json, reads_whole_numbers_within_bounds) {
  EXPECT_EQ(whole_number(7U, 7, 7), 7u);
  EXPECT_EQ(whole_number(UINT64_MAX, 0, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(whole_number(Json::parse("-0"), 0, 7), 0U);
  EXPECT_EQ(whole_number(Json::parse("-0"), 1, 7), std::nullopt);
  EXPECT_EQ(whole_number(Json::parse("-0.0"), 0, 7), std::nullopt);
  for (const char* text : {"6", "8", "7.0", "\"7\"", "-7", "true", "null", "[7]"}) {
    EXPECT_EQ(whole_number(Json::parse(text), 7, 7), std::nullopt) << text;
  }
  EXPECT_EQ(whole_number_complaint(true, {"", 1, 5}),
            "must be a whole number from 1 to 5, not true");
}

}  // namespace
}  // namespace sluice::text
