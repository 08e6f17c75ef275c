// Verdicts are on the wire and in metrics: their numbers and names stay. Method: a list by hand.
#include "api/verdict.hpp"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(Verdict, keeps_its_numbers_and_names) {
  const std::string_view names[] = {"none",
                                    "approved",
                                    "denied",
                                    "queued",
                                    "table_full",
                                    "waiters_full",
                                    "overloaded",
                                    "not_allowed",
                                    "never_fits",
                                    "invalid_key",
                                    "wait_limit",
                                    "withdrawn",
                                    "draining",
                                    "handles_full",
                                    "owner_unreachable",
                                    "connection_waiters_full",
                                    "key_waiters_full"};
  ASSERT_EQ(std::size(names), verdicts_count);
  for (uint32_t number = 0; number < verdicts_count; ++number) {
    EXPECT_EQ(verdict_name(static_cast<Verdict>(number)), names[number]);
  }
}

TEST(Verdict, zero_is_no_approval) {
  EXPECT_NE(static_cast<uint8_t>(Verdict::approved), 0);
}

TEST(Verdict, has_no_name_for_numbers_beyond_the_last) {
  EXPECT_EQ(verdict_name(static_cast<Verdict>(verdicts_count)), "none");
  EXPECT_EQ(verdict_name(static_cast<Verdict>(255)), "none");
}

}  // namespace
}  // namespace sluice::api
