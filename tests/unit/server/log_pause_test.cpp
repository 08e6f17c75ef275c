// One line is logged, and the next one when the pause is over.
#include "server/log_pause.hpp"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(LogPause, lets_one_line_pass_until_the_pause_is_over) {
  LogPause pause(1'000);
  EXPECT_TRUE(pause.may_log({.monotonic_ns = 5}));
  EXPECT_FALSE(pause.may_log({.monotonic_ns = 5})) << "of another worker";
  EXPECT_FALSE(pause.may_log({.monotonic_ns = 1'004}));
  EXPECT_TRUE(pause.may_log({.monotonic_ns = 1'005}));
  EXPECT_FALSE(pause.may_log({.monotonic_ns = 2'004})) << "the pause has begun anew";
}

}  // namespace
}  // namespace sluice::server
