// Goal: what no format can have is refused with its place. Method: one bad value at a time.
#include "transfer/writable.hpp"

#include <gtest/gtest.h>

#include "support/go_ratelimit_sample.hpp"

namespace sluice::transfer {
namespace {

using Change = void (*)(GoRatelimitFile&);

struct BadValue {
  Change change;
  const char* complaint;
};

TEST(Writable, accepts_all_that_is_not_negative) {
  EXPECT_TRUE(check_writable({}));
  EXPECT_TRUE(check_writable(test::go_ratelimit_sample()));
}

TEST(Writable, refuses_each_bad_value) {
  const BadValue cases[] = {
      {[](GoRatelimitFile& f) { f.quotas["local"].max_rpm = -1; },
       "quotas.local.max_rpm: -1 is negative\n"},
      {[](GoRatelimitFile& f) { f.quotas["local"].max_tpm = -2; },
       "quotas.local.max_tpm: -2 is negative\n"},
      {[](GoRatelimitFile& f) { f.quotas["local"].max_rpd = -3; },
       "quotas.local.max_rpd: -3 is negative\n"},
      {[](GoRatelimitFile& f) { f.quotas["\xff"] = {}; },
       "quotas.\"\\xff\": the name is no UTF-8\n"},
      {[](GoRatelimitFile& f) { f.usage["\xff"] = {}; }, "state.\"\\xff\": the name is no UTF-8\n"},
      {[](GoRatelimitFile& f) { f.usage["gpt-4o"].requests_wall_ns[1] = -1; },
       "state.gpt-4o.requests: -1 is negative\n"},
      {[](GoRatelimitFile& f) { f.usage["gpt-4o"].tokens[1].wall_ns = -1; },
       "state.gpt-4o.tokens: -1 is negative\n"},
      {[](GoRatelimitFile& f) { f.usage["gpt-4o"].tokens[1].count = -5; },
       "state.gpt-4o.tokens: -5 is negative\n"},
      {[](GoRatelimitFile& f) { f.usage["gpt-4o"].day_start_wall_ns = -1; },
       "state.gpt-4o.day_start: -1 is negative\n"},
      {[](GoRatelimitFile& f) { f.usage["gpt-4o"].day_count = -1; },
       "state.gpt-4o.day_count: -1 is negative\n"},
  };
  for (const BadValue& bad : cases) {
    GoRatelimitFile file = test::go_ratelimit_sample();
    bad.change(file);
    EXPECT_EQ(test::lines_of(check_writable(file)), bad.complaint);
  }
}

}  // namespace
}  // namespace sluice::transfer
