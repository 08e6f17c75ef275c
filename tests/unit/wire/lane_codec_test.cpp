// Goal: what an owner hands out with a grant is what it reads when it is returned, whatever is done
//       to it on the way.
// Method: claims at the bounds of their numbers; a permit of any bytes.
#include "wire/lane_codec.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/limits.hpp"

namespace sluice::wire {
namespace {

TEST(LaneCodec, returns_the_claim_of_a_permit) {
  const api::RefundClaim claim{.key_tag = 0xFEDC'BA98'7654'3210,
                               .window_end_ms = -5,
                               .key_position = 0x8000'0001,
                               .cost = 1'000'000'000};
  const PermitClaim read = claim_of(permit_of(claim, 255));
  EXPECT_EQ(read.claim.key_tag, claim.key_tag);
  EXPECT_EQ(read.claim.window_end_ms, claim.window_end_ms);
  EXPECT_EQ(read.claim.key_position, claim.key_position);
  EXPECT_EQ(read.claim.cost, claim.cost);
  EXPECT_EQ(read.claim.reservation, 0u);
  EXPECT_EQ(read.shard, 255u);
}

TEST(LaneCodec, reads_the_permits_of_a_refund_as_they_were_granted) {
  std::mt19937_64 random(4);
  std::vector<Permit> permits(100);
  for (Permit& permit : permits) {
    for (std::byte& byte : permit) byte = static_cast<std::byte>(random());
  }
  std::vector<uint64_t> words(refund_bytes(permits) / word_bytes);
  encode_refund(9, permits, std::as_writable_bytes(std::span(words)));
  const auto request = decode(std::as_bytes(std::span(words)));
  ASSERT_TRUE(request);
  const auto& refund = std::get<RefundRequest>(request->body);
  ASSERT_EQ(permits_count(refund.permits), permits.size());
  for (size_t index = 0; index < permits.size(); ++index) {
    EXPECT_EQ(nth_permit(refund.permits, index), permits[index]);
  }
}

}  // namespace
}  // namespace sluice::wire
