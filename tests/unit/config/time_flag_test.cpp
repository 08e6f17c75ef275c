// Goal: a flag whose name ends in a unit takes a time with any unit, exactly, and bare numbers as
//       they are.
// Method: options by name, and the texts that they take.
#include "config/time_flag.hpp"

#include <gtest/gtest.h>

#include "config/pflag.hpp"

namespace sluice::config {
namespace {

std::string taken(const std::string& flag, const std::string& text) {
  CLI::App app;
  std::string value;
  try {
    return in_unit_of(*app.add_option(flag, value), text);
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(TimeFlag, takes_a_time_with_a_unit) {
  EXPECT_EQ(taken("--drain-millis", "10s"), "10000");
  EXPECT_EQ(taken("-w,--window-millis", "250ms"), "250");
  EXPECT_EQ(taken("--wait-limit-ms", "2m"), "120000");
  EXPECT_EQ(taken("--lifetime-ms", "1h"), "3600000");
  EXPECT_EQ(taken("--seconds", "2m"), "120");
  EXPECT_EQ(taken("--warm-up-seconds", "1050ms"), "1.05");
}

TEST(TimeFlag, leaves_a_bare_number_as_it_is) {
  for (const char* text : {"10", "0", "-1", "0x10", "0x5d", "1_000"}) {
    EXPECT_EQ(taken("--drain-millis", text), text);
  }
  EXPECT_EQ(taken("--seconds", "0.5"), "0.5");
}

TEST(TimeFlag, is_no_other_flag) {
  for (const char* flag : {"--max-requests", "--millis-per-turn", "--owner", "--latency-mms"}) {
    EXPECT_EQ(taken(flag, "10s"), "10s") << flag;
  }
}

TEST(TimeFlag, refuses_parts_of_its_unit_and_other_words) {
  EXPECT_EQ(taken("--drain-millis", "1500us"),
            "invalid argument \"1500us\" for \"--drain-millis\" flag: whole milliseconds are "
            "expected");
  for (const char* text : {"", "10 s", "10x", "s", "1.5s"}) {
    EXPECT_NE(taken("--drain-millis", text).find("a whole number is expected, or a time such as"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace sluice::config
