// Goal: client and server agree on quota codes, their reasons, and the codes that may be retried.
// Method: compares both tables.
#include <gtest/gtest.h>

#include "api/quota.hpp"
#include "sluicegate/quota.hpp"

namespace {

namespace server = sluice::api;
namespace client = sluicegate;

TEST(QuotaNames, codes_are_those_of_the_server) {
  ASSERT_EQ(client::quota_codes_count, size_t{server::quota_codes_count});
  for (uint32_t number = 0; number < server::quota_codes_count; ++number) {
    const auto of_client = static_cast<client::QuotaCode>(number);
    const auto of_server = static_cast<server::QuotaCode>(number);
    EXPECT_EQ(client::name(of_client), server::code_name(of_server)) << number;
    EXPECT_EQ(client::reason(of_client), server::code_reason(of_server)) << number;
    EXPECT_EQ(client::admits(of_client), server::admits(of_server)) << number;
    EXPECT_EQ(client::may_retry(of_client), server::may_retry(of_server)) << number;
  }
}

TEST(QuotaNames, codes_have_the_servers_names) {
  EXPECT_EQ(client::name(client::QuotaCode::tpm_exceeded), "tpm_exceeded");
  EXPECT_EQ(client::name(client::QuotaCode::no_such_quota), "no_such_quota");
  EXPECT_EQ(client::name(static_cast<client::QuotaCode>(200)), "unknown");
  EXPECT_FALSE(client::may_retry(client::QuotaCode::exceeds_limit));
}

TEST(QuotaNames, metrics_kinds_and_sources_are_those_of_the_server) {
  for (uint32_t number = 0; number < server::metrics_count; ++number) {
    EXPECT_EQ(client::name(static_cast<client::Metric>(number)),
              server::metric_name(static_cast<server::Metric>(number)))
        << number;
  }
  for (uint32_t number = 0; number < server::limit_kinds_count; ++number) {
    EXPECT_EQ(client::name(static_cast<client::LimitKind>(number)),
              server::kind_name(static_cast<server::LimitKind>(number)))
        << number;
  }
  for (const auto source :
       {server::QuotaSource::none, server::QuotaSource::run_time, server::QuotaSource::file,
        server::QuotaSource::profile, server::QuotaSource::file_default}) {
    EXPECT_EQ(client::name(static_cast<client::QuotaSource>(source)), server::source_name(source));
  }
  EXPECT_EQ(client::name(static_cast<client::Metric>(server::metrics_count)), "unknown");
  EXPECT_EQ(client::name(static_cast<client::LimitKind>(server::limit_kinds_count)), "unknown");
}

}  // namespace
