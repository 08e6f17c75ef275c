// Goal: YAML as the library writes it is read whole; everything else is a complaint with its place,
// and no text makes the reader use much memory. Method: a table of texts; files beside them.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/yaml_source.hpp"

namespace sluice::transfer {
namespace {

class GoRatelimitYamlTest : public ::testing::Test {
 protected:
  Complained<GoRatelimitFile> read(std::string_view text) {
    test::write_text(path, text);
    return read_go_ratelimit_yaml(path);
  }
  std::string complained(std::string_view text) {
    const Complained<GoRatelimitFile> file = read(text);
    return file ? "nothing\n" : test::lines_of(file);
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("ratelimits.yaml");
};

// As gopkg.in/yaml.v3 writes it: four spaces, plain times with the offset of the machine.
constexpr std::string_view whole = R"(quotas:
    "123":
        max_rpm: 1
        max_tpm: 2
        max_rpd: 3
    gpt-4o:
        max_rpm: 500
        max_tpm: 30000
        max_rpd: 0
state:
    gpt-4o:
        requests:
            - 2026-02-19T11:00:00.000000001+01:00
            - 2026-02-19T11:00:00+01:00
        tokens:
            - time: 2026-02-19T11:00:00.000000001+01:00
              count: 5
            - time: 2026-02-19T10:00:00Z
              count: 9223372036854775807
        day_start: 2026-02-19T11:00:00+01:00
        day_count: 2
    idle:
        requests: []
        tokens: []
        day_start: 0001-01-01T00:00:00Z
        day_count: 0
)";

TEST_F(GoRatelimitYamlTest, reads_what_the_library_writes) {
  const Complained<GoRatelimitFile> file = read(whole);
  ASSERT_TRUE(file) << test::lines_of(file);
  GoRatelimitFile expected;
  expected.quotas["123"] = {.max_rpm = 1, .max_tpm = 2, .max_rpd = 3};
  expected.quotas["gpt-4o"] = {.max_rpm = 500, .max_tpm = 30'000};
  constexpr int64_t at = test::sample_wall_ns;
  expected.usage["gpt-4o"] = {.requests_wall_ns = {at, at + 1},
                              .tokens = {{at, INT64_MAX}, {at + 1, 5}},
                              .day_start_wall_ns = at,
                              .day_count = 2};
  expected.usage["idle"] = {};
  EXPECT_EQ(*file, expected);
}

TEST_F(GoRatelimitYamlTest, reads_other_styles_of_the_same) {
  const Complained<GoRatelimitFile> file = read(
      "# by hand\n---\n{state: {'a\\': {requests: ['2026-02-19T10:00:00Z'], tokens: [],\n"
      "  day_start: \"0001-01-01T00:00:00Z\", day_count: 1}}, quotas: {? \"a\\n\\xE4\" : "
      "{}}}\n...\n");
  ASSERT_TRUE(file) << test::lines_of(file);
  EXPECT_EQ(file->usage.at("a\\").requests_wall_ns, std::vector<int64_t>{test::sample_wall_ns});
  EXPECT_EQ(file->quotas.at("a\n\xC3\xA4"), ModelQuota{});
}

// The library writes in place, so a crash can leave the begin of a file. Where the last model but
// one ends, nothing shows that.
TEST_F(GoRatelimitYamlTest, notices_a_cut_but_between_models) {
  const size_t last_model = whole.find("    idle:");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(read(whole.substr(0, bytes)).has_value(), bytes == last_model) << bytes;
  }
}

struct BadText {
  std::string_view text;
  std::string_view complaints;
};

// Of a whole file with `lines` in the section.
std::string with_quotas(std::string_view lines) {
  return "state: {}\nquotas:\n" + std::string(lines);
}
std::string with_usage(std::string_view lines) {
  return "quotas: {}\nstate:\n m:\n" + std::string(lines);
}

TEST_F(GoRatelimitYamlTest, refuses_a_bad_document) {
  for (const BadText& bad : {
           BadText{"", "is empty\n"},
           BadText{"\n", "line 1, column 1: has no content; at least: quotas: {}, state: {}\n"},
           BadText{"# nothing\n",
                   "line 1, column 1: has no content; at least: quotas: {}, state: {}\n"},
           BadText{"---\n", "line 2, column 1: is null, and must be a map\n"},
           BadText{"null\n", "line 1, column 1: is null, and must be a map\n"},
           BadText{"- quotas\n", "line 1, column 1: is a list, and must be a map\n"},
           BadText{"quotas: {}\nstate: {}",
                   "ends within a line: it was cut, or lacks a line end\n"},
           BadText{"{}\n",
                   "line 1, column 1: quotas is missing; a file that was written whole has it\n"
                   "line 1, column 1: state is missing; a file that was written whole has it\n"},
           BadText{"quotas: {}\nstate:\n", "line 3, column 1: state: is null, and must be a map\n"},
           BadText{"quotas: []\nstate: 5\n",
                   "line 1, column 9: quotas: is a list, and must be a map\n"
                   "line 2, column 8: state: is a single value, and must be a map\n"},
           BadText{"quotas: {}\nstate: {}\nquotas: {}\n",
                   "line 3, column 1: quotas: is there twice\n"},
           BadText{"quotas: {}\nstate: {}\nversion: 2\n",
                   "line 3, column 1: version: is unknown; there are quotas and state\n"},
           BadText{"quotas: {}\nstate: {}\n---\nquotas: {}\n",
                   "line 2, column 8: a second document follows\n"},
           BadText{"quotas: {}\nstate: {}\n--- [a, *b]\n",
                   "line 2, column 8: a second document follows\n"},
           BadText{"quotas: {\nstate\n",
                   "line 2, column 1: quotas.state: is null, and must be a map\n"
                   "line 3, column 1: is no YAML: end of map flow not found\n"},
           BadText{"quotas: {}\nstate: {a: \x01}\n",
                   "line 2, column 12: is no character of YAML in UTF-8\n"},
           BadText{"quotas: {}\nstate: {a: \xff}\n",
                   "line 2, column 12: is no character of YAML in UTF-8\n"},
       }) {
    EXPECT_EQ(complained(bad.text), bad.complaints) << bad.text;
  }
}

TEST_F(GoRatelimitYamlTest, refuses_a_bad_quota) {
  for (const BadText& bad : {
           BadText{" m:\n", "line 4, column 1: quotas.m: is null, and must be a map\n"},
           BadText{" m: ~\n", "line 3, column 5: quotas.m: is null, and must be a map\n"},
           BadText{" ~: {}\n", "line 3, column 2: quotas: null is no name\n"},
           BadText{" \"a\\N\": {}\n",
                   "line 3, column 2: quotas.\"a\\x85\": is no UTF-8: write \\u0085 for \\N, and "
                   "\\u00a0 "
                   "for \\_\n"},
           BadText{" [m]: {}\n", "line 3, column 2: quotas: a list is no name\n"},
           BadText{" m: {}\n n: {}\n m: {}\n", "line 5, column 2: quotas.m: is there twice\n"},
           BadText{" m: {max_rpm: -1}\n",
                   "line 3, column 15: quotas.m.max_rpm: \"-1\" is negative\n"},
           BadText{" m: {max_tpm: null}\n",
                   "line 3, column 15: quotas.m.max_tpm: is null, and must be a number\n"},
           BadText{" m: {max_rpd: }\n",
                   "line 3, column 15: quotas.m.max_rpd: is null, and must be a number\n"},
           BadText{" m: {max_rpm: '5'}\n",
                   "line 3, column 15: quotas.m.max_rpm: is a text, and must be a number\n"},
           BadText{" m: {max_rpm: [5]}\n",
                   "line 3, column 15: quotas.m.max_rpm: is a list, and must be a number\n"},
           BadText{" m: {max_rpm: {a: 5}}\n",
                   "line 3, column 15: quotas.m.max_rpm: is a map, and must be a number\n"},
           BadText{" m: {max_rpm: 5, max_rpm: 5}\n",
                   "line 3, column 18: quotas.m.max_rpm: is there twice\n"},
           BadText{" m: {rpm: 5}\n",
                   "line 3, column 6: quotas.m.rpm: is unknown; there are max_rpm, max_tpm and "
                   "max_rpd\n"},
           BadText{
               " m: {max_rpm: !!int 5}\n",
               "line 3, column 15: quotas.m.max_rpm: has the tag \"tag:yaml.org,2002:int\"; write "
               "a "
               "plain value instead\n"},
           BadText{" m: &a {max_rpm: 5}\n n: *a\n",
                   "line 4, column 5: quotas.n: is an alias; write its value instead\n"},
           BadText{" m: {<<: {max_rpm: 5}}\n",
                   "line 3, column 6: quotas.m.<<: is unknown; there are max_rpm, max_tpm and "
                   "max_rpd\n"},
       }) {
    EXPECT_EQ(complained(with_quotas(bad.text)), bad.complaints) << bad.text;
  }
  for (const char* number : {"5.0", "1e3", "0x10", "010", "1_000", "+5", "five", "true", "."}) {
    EXPECT_EQ(complained(with_quotas(" m: {max_rpm: " + std::string(number) + "}\n")),
              "line 3, column 15: quotas.m.max_rpm: \"" + std::string(number) +
                  "\" is no whole number in decimal digits\n");
  }
  EXPECT_EQ(
      complained(with_quotas(" m: {max_rpm: 9223372036854775808}\n")),
      "line 3, column 15: quotas.m.max_rpm: \"9223372036854775808\" does not fit into 64 bits\n");
}

TEST_F(GoRatelimitYamlTest, refuses_a_bad_usage) {
  for (const BadText& bad : {
           BadText{
               "  requests: []\n  tokens: []\n",
               "line 4, column 3: state.m: day_start is missing; a file that was written whole has "
               "it\n"
               "line 4, column 3: state.m: day_count is missing; a file that was written whole has "
               "it\n"},
           BadText{
               "  requests: []\n  tokens: []\n  day_start: 2026-02-19T10:00:00Z\n  day_count: 0\n"
               "  hour_count: 0\n",
               "line 8, column 3: state.m.hour_count: is unknown; there are requests, tokens, "
               "day_start and day_count\n"},
           BadText{"  requests: [yesterday]\n  tokens: []\n  day_start: 5\n  day_count: -2\n",
                   "line 4, column 14: state.m.requests[0]: \"yesterday\" is no time such as "
                   "2026-02-19T10:00:00.5+01:00\n"
                   "line 6, column 14: state.m.day_start: \"5\" is no time such as "
                   "2026-02-19T10:00:00.5+01:00\n"
                   "line 7, column 14: state.m.day_count: \"-2\" is negative\n"},
           BadText{
               "  requests:\n  - 2026-02-19T10:00:00Z\n  - 0001-01-01T00:00:00Z\n"
               "  - 1969-01-01T00:00:00Z\n  - null\n  - {}\n"
               "  tokens: {}\n  day_start: ~\n  day_count: 0\n",
               "line 6, column 5: state.m.requests[1]: is Go's zero time, at which nothing "
               "happened\n"
               "line 7, column 5: state.m.requests[2]: \"1969-01-01T00:00:00Z\" is before 1970\n"
               "line 8, column 5: state.m.requests[3]: is null, and must be a time\n"
               "line 9, column 5: state.m.requests[4]: is a map, and must be a time\n"
               "line 10, column 11: state.m.tokens: is a map, and must be a list\n"
               "line 11, column 14: state.m.day_start: is null, and must be a time\n"},
           BadText{
               "  requests: []\n  tokens:\n  - {time: 2026-02-19T10:00:00Z, count: 1}\n"
               "  - {time: 2026-02-19T10:00:00Z}\n  - {count: x, what: 3}\n  - 4\n  - \n"
               "  day_start: 2026-02-19T10:00:00Z\n  day_count: 0\n",
               "line 7, column 5: state.m.tokens[1]: count is missing; a file that was written "
               "whole has it\n"
               "line 8, column 13: state.m.tokens[2].count: \"x\" is no whole number in decimal "
               "digits\n"
               "line 8, column 16: state.m.tokens[2].what: is unknown; there are time and count\n"
               "line 8, column 5: state.m.tokens[2]: time is missing; a file that was written "
               "whole has it\n"
               "line 9, column 5: state.m.tokens[3]: is a single value, and must be a map\n"
               "line 11, column 3: state.m.tokens[4]: is null, and must be a map\n"},
       }) {
    EXPECT_EQ(complained(with_usage(bad.text)), bad.complaints) << bad.text;
  }
}

TEST_F(GoRatelimitYamlTest, reports_many_complaints_up_to_a_bound) {
  std::string lines;
  for (int i = 0; i < 1'000; ++i) lines += " m" + std::to_string(i) + ": {max_rpm: -1}\n";
  const Complained<GoRatelimitFile> file = read(with_quotas(lines));
  ASSERT_FALSE(file);
  ASSERT_EQ(file.error().size(), go_ratelimit_complaints_max + 1);
  EXPECT_EQ(file.error().back(), (Complaint{"", "900 further complaints"}));
}

TEST_F(GoRatelimitYamlTest, refuses_aliases_that_stand_for_much) {
  std::string text = "quotas: {}\nstate: {}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) text += ", " + last;
    text += "]\n";
  }
  const Complained<GoRatelimitFile> file = read(text);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().size(), 30u) << "each of the names is unknown";
}

TEST_F(GoRatelimitYamlTest, refuses_what_is_nested_too_deeply) {
  constexpr int depth = 10'000;
  for (const char* piece : {"[", "{", "- ", "? "}) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += piece;
    const std::string complaints = complained(text + "\n");
    EXPECT_NE(complaints.find("is nested too deeply\n"), std::string::npos) << complaints;
  }
}

TEST_F(GoRatelimitYamlTest, refuses_a_long_text_without_nodes) {
  const std::string_view complaint =
      "line 1, column 1: more than 256 KiB follow without a key or value of their own; write lists "
      "and maps in lines\n";
  for (const char* piece : {"[],", "a,", "# x\n", "x", "\"", "\n"}) {
    std::string text = std::string_view(piece).ends_with(',') ? "[" : "";
    while (text.size() < 4 * yaml_ahead_bytes_max) text += piece;
    const std::string complaints = complained(text + "\n");
    EXPECT_NE(complaints.find("more than 256 KiB"), std::string::npos) << piece << complaints;
  }
  EXPECT_EQ(complained("#" + std::string(2 * yaml_ahead_bytes_max, 'x') + "\n"), complaint);
}

TEST_F(GoRatelimitYamlTest, writes_what_it_reads) {
  const std::string copy = folder.file("copy.yaml");
  ASSERT_TRUE(write_go_ratelimit_yaml(copy, test::go_ratelimit_sample()));
  const Complained<GoRatelimitFile> again = read_go_ratelimit_yaml(copy);
  ASSERT_TRUE(again) << test::lines_of(again) << test::file_text(copy);
  EXPECT_EQ(*again, test::go_ratelimit_sample());
  const std::string nothing = folder.file("nothing.yaml");
  ASSERT_TRUE(write_go_ratelimit_yaml(nothing, {}));
  EXPECT_EQ(test::file_text(nothing), "quotas:\n  {}\nstate:\n  {}\n");
  EXPECT_EQ(read_go_ratelimit_yaml(nothing).value(), GoRatelimitFile{});
}

// Every character, a thousand to a name.
TEST_F(GoRatelimitYamlTest, writes_names_of_any_character_or_refuses_them) {
  GoRatelimitFile file;
  GoRatelimitFile refused;
  std::string name;
  for (uint32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xD800 && value < 0xE000) continue;
    const std::string character = test::utf8_of(value);
    const bool is_bad =
        value == 0x7F || (value >= 0xFDD0 && value <= 0xFDEF) || value % 0x10000 >= 0xFFFE;
    if (is_bad) refused.quotas[character] = {};
    if (!is_bad) name += character;
    if (value % 1'000 == 999) file.quotas[std::exchange(name, {})] = {};
  }
  ASSERT_TRUE(write_go_ratelimit_yaml(path, file));
  const Complained<GoRatelimitFile> again = read_go_ratelimit_yaml(path);
  ASSERT_TRUE(again) << test::lines_of(again);
  EXPECT_TRUE(*again == file);
  EXPECT_EQ(refused.quotas.size(), 67u);
  const Complained<void> written = write_go_ratelimit_yaml(folder.file("f"), refused);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().size(), refused.quotas.size());
}

TEST_F(GoRatelimitYamlTest, writes_no_name_that_nobody_could_read) {
  GoRatelimitFile file;
  file.quotas["a\x7F"] = {};
  file.usage["\xEF\xBF\xBF"] = {};
  EXPECT_EQ(test::lines_of(write_go_ratelimit_yaml(path, file)),
            "quotas.\"a\\x7f\": the name has a character that YAML does not allow\n"
            "state.\"\\uffff\": the name has a character that YAML does not allow\n");
  EXPECT_TRUE(test::names_in(folder.path()).empty());
}

}  // namespace
}  // namespace sluice::transfer
