// Goal: the screen shows the answer of GET /top: sorted, cut to any size, with no byte of a key
//       unescaped, and old figures marked as such.
// Method: made-up traffic, compared as lines of text.
#include "cli/top_view.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

ShardTraffic shard(uint32_t number) {
  return {.shard = number,
          .rates = {.decisions = 1'500, .approved = 1'000, .denied = 400, .queued = 100},
          .waiting = 7,
          .keys = 12'345,
          .connections = 3};
}

TopView two_shards() {
  return {.address = "localhost:8080",
          .traffic = {.version = "1.2.3",
                      .shards = {shard(0), shard(1)},
                      .keys = {{.key = "often",
                                .shard = 1,
                                .rates = {.decisions = 900, .approved = 900},
                                .waiting = 0},
                               {.key = "denied",
                                .shard = 0,
                                .rates = {.decisions = 20.5, .denied = 20.5},
                                .waiting = 5}}}};
}

std::vector<std::string> texts(const std::vector<Line>& lines) {
  std::vector<std::string> all;
  for (const Line& line : lines) all.push_back(line.text);
  return all;
}

TEST(TopView, whole) {
  const std::vector<std::string> expected = {
      "sluicegate 1.2.3 at localhost:8080",
      "",
      "SHARD  DECISIONS/S  APPROVED/S  DENIED/S  QUEUED/S  WAITING     KEYS  CONNECTIONS",
      "    0        1.50k       1.00k       400       100        7    12.3k            3",
      "    1        1.50k       1.00k       400       100        7    12.3k            3",
      "  all        3.00k       2.00k       800       200       14    24.7k            6",
      "",
      "SHARD  DECISIONS/S  APPROVED/S  DENIED/S  QUEUED/S  WAITING  KEY (by decisions)",
      "    1          900         900         0         0        0  often",
      "    0         20.5           0      20.5         0        5  denied"};
  EXPECT_EQ(texts(two_shards().lines()), expected);
}

TEST(TopView, sorts_by_the_chosen_column) {
  TopView view = two_shards();
  const auto first_key = [&] {
    const std::string line = view.lines()[8].text;
    return line.substr(line.rfind(' ') + 1);
  };
  EXPECT_EQ(first_key(), "often");
  view.sort_by = SortBy::approved;
  EXPECT_EQ(first_key(), "often");
  view.sort_by = SortBy::denied;
  EXPECT_EQ(first_key(), "denied");
  view.sort_by = SortBy::waiting;
  EXPECT_EQ(first_key(), "denied");
  EXPECT_NE(view.lines()[7].text.find("KEY (by waiting)"), std::string::npos);
}

TEST(TopView, shows_that_the_server_is_gone) {
  TopView view = two_shards();
  view.fault = "localhost:8080: Connection refused";
  view.fault_age = std::chrono::seconds{17};
  const Line line = view.lines()[1];
  EXPECT_EQ(line.style, Line::Style::warning);
  EXPECT_EQ(line.text,
            "NO ANSWER since 17 s, the figures below are old: localhost:8080: Connection refused");
}

TEST(TopView, fits_any_screen) {
  TopView view = two_shards();
  for (uint32_t number = 2; number < 256; ++number) view.traffic.shards.push_back(shard(number));
  view.traffic.keys.resize(100, view.traffic.keys[0]);
  for (const size_t rows : {1, 2, 3, 5, 24, 1'000}) {
    for (const size_t columns : {1, 20, 80, 500}) {
      const auto lines = view.lines(columns, rows);
      EXPECT_EQ(lines.size(), rows);
      for (const Line& line : lines) EXPECT_LE(line.text.size(), columns);
      EXPECT_TRUE(lines.back().text.starts_with(cut_to("q quit", columns)));
    }
  }
}

TEST(TopView, many_shards_leave_room_for_keys) {
  TopView view = two_shards();
  for (uint32_t number = 2; number < 64; ++number) view.traffic.shards.push_back(shard(number));
  const auto lines = texts(view.lines(80, 24));
  EXPECT_EQ(lines[3 + 9], "   55  shards more");
  EXPECT_TRUE(lines[3 + 10].starts_with("  all "));
  EXPECT_TRUE(lines[3 + 13].ends_with("  often")) << lines[3 + 13];
}

TEST(TopView, hostile_keys_are_quoted) {
  TopView view = two_shards();
  view.traffic.keys[0].key = "\x1B[2J\n";
  view.traffic.version = "\x1B]0;";
  for (const Line& line : view.lines()) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~') << line.text;
  }
  EXPECT_TRUE(view.lines()[8].text.ends_with(R"(  "\x1b[2J\n")"));
}

TEST(TopView, has_a_line_for_no_requests) {
  EXPECT_EQ(TopView{}.lines().back().text, "       no requests");
}

TEST(TopView, reads_the_answer_of_the_server) {
  const Traffic traffic = read_top(
      R"({"version":"1","shards":[{"shard":3,"decisionsPerSecond":6.5,"approvedPerSecond":1,
      "deniedPerSecond":2,"queuedPerSecond":3.5,"waiting":4,"keys":5,"connections":6}],
      "keys":[{"key":"k","keyBytes":1,"shard":3,"decisionsPerSecond":9,"approvedPerSecond":8,
      "deniedPerSecond":1,"queuedPerSecond":0,"decisionsPerSecondMax":9.5,"waiting":2},
      {"key":"cut","keyBytes":900,"shard":0,"decisionsPerSecond":1,"approvedPerSecond":1,
      "deniedPerSecond":0,"queuedPerSecond":0,"decisionsPerSecondMax":1,"waiting":null}]})");
  ASSERT_EQ(traffic.shards.size(), 1U);
  EXPECT_EQ(traffic.shards[0].shard, 3U);
  EXPECT_EQ(traffic.shards[0].rates.queued, 3.5);
  EXPECT_EQ(traffic.shards[0].connections, 6U);
  ASSERT_EQ(traffic.keys.size(), 2U);
  EXPECT_EQ(traffic.keys[0].waiting, 2U);
  EXPECT_FALSE(traffic.keys[0].cut);
  EXPECT_TRUE(traffic.keys[1].cut);
  const auto lines = TopView{.traffic = traffic}.lines();
  EXPECT_TRUE(lines.back().text.ends_with("        ?  cut...")) << lines.back().text;
}

TEST(TopView, anything_else_is_refused) {
  for (const char* body : {"", "[]", "{}", "<html>", R"({"version":1,"shards":[],"keys":[]})",
                           R"({"version":"1","shards":[{}],"keys":[]})",
                           R"({"version":"1","shards":[],"keys":[{"key":7}]})"}) {
    EXPECT_THROW(read_top(body), std::runtime_error) << body;
  }
}

TEST(TopView, numbers_are_short) {
  EXPECT_EQ(compact(0), "0");
  EXPECT_EQ(compact(0.3), "0.3");
  EXPECT_EQ(compact(7), "7");
  EXPECT_EQ(compact(99.94), "99.9");
  EXPECT_EQ(compact(204.4), "204");
  EXPECT_EQ(compact(999.4), "999");
  EXPECT_EQ(compact(999.6), "1.00k");
  EXPECT_EQ(compact(12'345), "12.3k");
  EXPECT_EQ(compact(999'600), "1.00M");
  EXPECT_EQ(compact(51'000'000), "51.0M");
  EXPECT_EQ(compact(4e12), "4000G");
}

TEST(TopView, characters_are_cut_by_width) {
  EXPECT_EQ(cut_to("abc", 2), "ab");
  EXPECT_EQ(cut_to("abc", 9), "abc");
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) GTEST_SKIP() << "no UTF-8 here";
  EXPECT_EQ(cut_to("gr\u00FCn", 3), "gr\u00FC");
  EXPECT_EQ(cut_to("\u4E2D\u6587", 3), "\u4E2D");
  EXPECT_EQ(cut_to("a\xFF"
                   "b",
                   2),
            "a\xFF");
  std::setlocale(LC_CTYPE, "C");
}

}  // namespace
}  // namespace sluice::cli
