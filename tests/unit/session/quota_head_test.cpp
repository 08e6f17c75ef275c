// Goal: no text of a head is lost or mixed up when the received bytes are overwritten.
// Method: every text differs, and is overwritten.
#include "session/quota_head.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::session {
namespace {

TEST(QuotaHead, keeps_texts_after_received_bytes_are_overwritten) {
  std::string bytes = "abcdefghi";
  const auto text = [&](size_t at) { return std::string_view(bytes).substr(at, 1); };
  const QuotaHead head({.endpoint = wire::QuotaEndpoint::reservations,
                        .method = text(0),
                        .subject = text(1),
                        .by_subject = true,
                        .reservation = text(2),
                        .cursor = text(3),
                        .limit = text(4),
                        .rate_style = text(5),
                        .headers = text(6),
                        .dry_run = wire::DryRun::yes,
                        .unknown_parameter = text(7),
                        .invalid_parameter = text(8)});
  bytes.assign(bytes.size(), '?');
  const wire::RestQuota kept = head.view();
  EXPECT_EQ(kept.endpoint, wire::QuotaEndpoint::reservations);
  EXPECT_TRUE(kept.by_subject);
  EXPECT_EQ(kept.dry_run, wire::DryRun::yes);
  std::string texts;
  for (const std::string_view kept_text :
       {kept.method, kept.subject, kept.reservation, kept.cursor, kept.limit, kept.rate_style,
        kept.headers, kept.unknown_parameter, kept.invalid_parameter}) {
    texts += kept_text;
  }
  EXPECT_EQ(texts, "abcdefghi");
}

}  // namespace
}  // namespace sluice::session
