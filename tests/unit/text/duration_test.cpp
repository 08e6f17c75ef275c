// Goal: times are read and shown as people write them; what is not a time is nothing.
// Method: tables of texts.
#include "text/duration.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace sluice::text {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

TEST(Duration, has_a_unit) {
  const std::pair<const char*, int64_t> cases[] = {
      {"7us", 7'000},
      {"250ms", second_ns / 4},
      {"10s", 10 * second_ns},
      {"2m", 120 * second_ns},
      {"1h", 3'600 * second_ns},
      {"30d", int64_t{30} * 86'400 * second_ns},
      {"0s", 0},
      {"4294967297ms", 4'294'967'297'000'000},
      {"31536000000ms", int64_t{365} * 86'400 * second_ns},
  };
  for (const auto& [text, duration_ns] : cases) {
    EXPECT_EQ(parse_duration(text), duration_ns) << text;
  }
}

TEST(Duration, is_nothing_else) {
  for (const char* text : {"", "10", "s", "ms", "-1s", "+1s", "1.5s", "1 s", "1S", "1min", "1ss",
                           "0x5d", "99999999999s", "4000000000d"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Duration, is_shown_in_the_longest_unit_that_divides_it) {
  EXPECT_EQ(duration_text(250), "250ms");
  EXPECT_EQ(duration_text(90'000), "90s");
  EXPECT_EQ(duration_text(120'000), "2m");
  EXPECT_EQ(duration_text(86'400'000), "1d");
  EXPECT_EQ(duration_text(UINT64_MAX), "18446744073709551615ms");
}

}  // namespace
}  // namespace sluice::text
