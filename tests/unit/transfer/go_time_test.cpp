// Goal: times as Go writes them, and only those, become nanoseconds. Method: a table each way.
#include "transfer/go_time.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::transfer {
namespace {

struct TimeCase {
  const char* text;
  int64_t wall_ns;
};

TEST(GoTime, reads_what_go_writes) {
  for (const TimeCase& time : {
           TimeCase{"1970-01-01T00:00:00Z", 0},
           TimeCase{"2026-02-19T10:00:00Z", 1'771'495'200'000'000'000},
           TimeCase{"2026-02-19T10:00:00.5Z", 1'771'495'200'500'000'000},
           TimeCase{"2026-02-19T10:00:00.123456789Z", 1'771'495'200'123'456'789},
           TimeCase{"2026-02-19T11:00:00.000000001+01:00", 1'771'495'200'000'000'001},
           TimeCase{"2026-02-19T04:15:00-05:45", 1'771'495'200'000'000'000},
           TimeCase{"2024-02-29T23:59:59Z", 1'709'251'199'000'000'000},
           TimeCase{"1970-01-01T00:30:00+00:30", 0},
           TimeCase{"2262-04-11T23:47:16.854775807Z", INT64_MAX},
       }) {
    const GoTime read = parse_go_time(time.text);
    ASSERT_TRUE(read) << time.text << ": " << read.error();
    EXPECT_EQ(*read, time.wall_ns) << time.text;
  }
}

TEST(GoTime, reads_the_zero_time_as_none) {
  for (const char* text : {"0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00",
                           // What SQLite has of it, written as YAML again.
                           "1754-08-30T22:43:41.128654848Z"}) {
    const GoTime read = parse_go_time(text);
    ASSERT_TRUE(read) << text << ": " << read.error();
    EXPECT_EQ(*read, std::nullopt) << text;
  }
  EXPECT_EQ(go_time_of(zero_time_unix_ns).value(), std::nullopt);
}

TEST(GoTime, refuses_other_texts) {
  for (const char* text : {
           "",
           "Z",
           "2026",
           "2026-02-19",
           "2026-02-19T10:00:00",
           "2026-02-19 10:00:00Z",
           "2026-02-19t10:00:00Z",
           "2026-02-19T10:00:00z",
           "2026-2-19T10:00:00Z",
           "2026-02-29T10:00:00Z",
           "2026-13-01T10:00:00Z",
           "2026-00-01T10:00:00Z",
           "2026-01-00T10:00:00Z",
           "2026-01-32T10:00:00Z",
           "2026-02-19T24:00:00Z",
           "2026-02-19T10:60:00Z",
           "2026-02-19T10:00:60Z",
           "2026-02-19T10:00:00.Z",
           "2026-02-19T10:00:00,5Z",
           "2026-02-19T10:00:00.1234567890Z",
           "2026-02-19T10:00:00+24:00",
           "2026-02-19T10:00:00+01:60",
           "2026-02-19T10:00:00+0100",
           "2026-02-19T10:00:00+01",
           "2026-02-19T10:00:00Z ",
           " 2026-02-19T10:00:00Z",
           "+026-02-19T10:00:00Z",
           "-2026-02-19T10:00:00Z",
           "2026-02-19T10:00:00ZZ",
           "now",
       }) {
    const GoTime read = parse_go_time(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error(), "is no time such as 2026-02-19T10:00:00.5+01:00") << text;
  }
}

TEST(GoTime, refuses_times_that_do_not_fit) {
  for (const char* text : {"1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00+00:01",
                           "1600-01-01T00:00:00Z", "0000-01-01T00:00:00Z"}) {
    EXPECT_EQ(parse_go_time(text).error(), "is before 1970") << text;
  }
  for (const char* text : {"2262-04-11T23:47:16.854775808Z", "9999-12-31T23:59:59Z"}) {
    EXPECT_EQ(parse_go_time(text).error(), "is after 2262, which does not fit into 64 bits")
        << text;
  }
  EXPECT_EQ(go_time_of(-1).error(), "is before 1970");
  EXPECT_EQ(go_time_of(INT64_MIN).error(), "is before 1970");
  EXPECT_EQ(go_time_of(0).value(), 0);
}

TEST(GoTime, writes_what_go_would) {
  EXPECT_EQ(go_time_text(std::nullopt), "0001-01-01T00:00:00Z");
  EXPECT_EQ(go_time_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(go_time_text(1), "1970-01-01T00:00:00.000000001Z");
  EXPECT_EQ(go_time_text(1'771'495'200'500'000'000), "2026-02-19T10:00:00.5Z");
  EXPECT_EQ(go_time_text(1'771'495'210'000'000'000), "2026-02-19T10:00:10Z");
  EXPECT_EQ(go_time_text(INT64_MAX), "2262-04-11T23:47:16.854775807Z");
}

}  // namespace
}  // namespace sluice::transfer
