// Goal:   the next cut has the last change of each name, once.
#include "quota/quota_changes.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"
#include "quota/quota_class.hpp"
#include "unit/quota/list_sink.hpp"

namespace sluice::quota {
namespace {

api::Quota requests_quota(uint64_t amount) {
  return {.limits = {{.name = "rpm", .amount = amount, .period_ms = 60'000}}};
}

TEST(QuotaChanges, has_the_last_one_of_each_name) {
  QuotaChanges changes(true);
  EXPECT_FALSE(changes.has_any());
  changes.put("a", requests_quota(1), 5 * base::ns_per_s);
  changes.put("a", requests_quota(2), 6 * base::ns_per_s);
  changes.put("b", requests_quota(1), 7 * base::ns_per_s);
  changes.remove("b", 8 * base::ns_per_s);
  changes.remove("c", 9 * base::ns_per_s);
  EXPECT_TRUE(changes.has_any());
  ListSink sink;
  changes.write(sink);
  EXPECT_EQ(sink.run_time_quotas, (std::map<std::string, std::string>{
                                      {"a", quota_text(requests_quota(2))}, {"b", ""}, {"c", ""}}));
  EXPECT_EQ(sink.changed_at_ms,
            (std::map<std::string, int64_t>{{"a", 6'000}, {"b", 8'000}, {"c", 9'000}}));
}

TEST(QuotaChanges, are_none_once_they_are_written) {
  QuotaChanges changes(true);
  changes.put("a", requests_quota(1), 0);
  ListSink sink;
  changes.write(sink);
  EXPECT_FALSE(changes.has_any());
  sink.clear();
  changes.write(sink);
  EXPECT_TRUE(sink.run_time_quotas.empty());
}

TEST(QuotaChanges, are_not_kept_without_a_state) {
  QuotaChanges changes(false);
  changes.put("a", requests_quota(1), 0);
  changes.remove("a", 0);
  EXPECT_FALSE(changes.has_any());
}

}  // namespace
}  // namespace sluice::quota
