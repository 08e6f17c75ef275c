// Goal: a class means one quota, on whatever shard, and its text is that quota.
// Method: quotas that differ in one field; the reader of policy/.
#include "quota/quota_class.hpp"

#include <gtest/gtest.h>

#include "policy/quota_text.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

TEST(QuotaClass, is_that_of_the_quotas_contents) {
  const auto id = [](const api::Quota& quota) { return class_id(quota_text(quota)); };
  const uint64_t of_one = id(quota_of({tpm(100), slots(2)}));
  EXPECT_EQ(of_one, id(quota_of({tpm(100), slots(2)})));
  EXPECT_NE(of_one, id(quota_of({tpm(101), slots(2)})));
  EXPECT_NE(of_one, id(quota_of({slots(2), tpm(100)})));
  api::Quota refunds = quota_of({tpm(100), slots(2)});
  refunds.refund_expired = true;
  EXPECT_NE(of_one, id(refunds));
}

TEST(QuotaClass, has_a_text_that_is_read_as_the_same_quota) {
  api::Quota quota = quota_of({tpm(100), slots(2), rpd(7),
                               with(limit_of("cost", api::Metric::cost, 0, api::LimitKind::gcra),
                                    api::Ceiling::unlimited)});
  quota.overtakers_max = 3;
  const policy::ParsedQuota read = policy::parse_quota(quota_text(quota));
  EXPECT_TRUE(read.complaints.empty());
  EXPECT_EQ(read.quota, quota);
}

TEST(QuotaClass, is_never_that_of_no_quota) {
  EXPECT_NE(class_id(""), 0U);
}

}  // namespace
}  // namespace sluice::quota
