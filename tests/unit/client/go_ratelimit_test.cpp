// Goal: the figures by go-ratelimit's names are those of the limits that it knows. Method: lists of
// limits; tests/integration/cpp_quota_test.cpp has the calls.
#include "sluicegate/go_ratelimit.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluicegate {
namespace {

using go_ratelimit::Stats;
using go_ratelimit::stats_of;

LimitState state(Metric metric, uint64_t period_ms, uint64_t used, uint64_t amount = 100) {
  return {.metric = metric, .amount = amount, .used = used, .period_ms = period_ms};
}

// As tests/clients/python/quota_values_test.py has it.
TEST(GoRatelimit, stats_have_the_first_limit_of_each_kind) {
  LimitState unlimited = state(Metric::requests, 86'400'000, 4);
  unlimited.ceiling = Ceiling::unlimited;
  LimitState of_another = state(Metric::tokens, 60'000, 9);
  of_another.subject = 1;
  const std::vector<LimitState> limits{of_another,
                                       state(Metric::requests, 1'000, 1),
                                       state(Metric::requests, 60'000, 2),
                                       state(Metric::tokens, 60'000, 3),
                                       unlimited,
                                       state(Metric::tokens, 60'000, 9),
                                       state(Metric::requests, 60'000, 9)};
  EXPECT_EQ(stats_of(limits),
            (Stats{.rpm = 2, .max_rpm = 100, .tpm = 3, .max_tpm = 100, .rpd = 4, .max_rpd = 0}));
  EXPECT_EQ(stats_of({}), Stats{});
}

}  // namespace
}  // namespace sluicegate
