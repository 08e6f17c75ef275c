// Goal: something that happens very often is logged in one line a minute, with its count.
#include "server/counted_warning.hpp"

#include <gtest/gtest.h>

#include "log_fixture.hpp"

namespace sluice::server {
namespace {

class CountedWarningTest : public test::LogTest {
 protected:
  static base::Now at(int64_t ns) { return {.monotonic_ns = ns, .wall_ns = 0}; }
};

TEST_F(CountedWarningTest, one_line_a_minute_has_the_cure_and_the_count) {
  CountedWarning log(misrouted_text);
  log.note(3, at(1));
  log.note(5, at(2));
  log.note(7, at(CountedWarning::pause_ns));
  log.note(11, at(CountedWarning::pause_ns + 1));
  const std::vector<test::Json> reported = lines();
  ASSERT_EQ(reported.size(), 2u);
  const std::string message = reported[0]["message"];
  EXPECT_NE(message.find("the same --instance-urls"), std::string::npos) << message;
  EXPECT_EQ(reported[0]["level"], "WARN");
  EXPECT_EQ(reported[0]["times"], 3);
  EXPECT_EQ(reported[1]["times"], 5 + 7 + 11);
}

}  // namespace
}  // namespace sluice::server
