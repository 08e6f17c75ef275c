// Goal: requests about quotas are decoded in place, and a quota is decoded as it was put.
// Method: golden frames, checked field by field. capnp_codec_decode_test.cpp tests that all of them
//         are read, or refused with the right error, and that both ways of decoding agree.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "sluicegate.capnp.h"
#include "tests/support/golden_files.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"
#include "wire/request_checks.hpp"

namespace sluice::wire {
namespace {

using Outcome = tl::expected<ClientRequest, DecodeError>;

Outcome decode_quota_bytes(std::span<const std::byte> bytes) {
  const auto cut = read_frame(bytes, limits::frame_bytes_max);
  return decode(std::get<base::Complete<Frame>>(cut).value);
}

template <typename Request>
Request golden(const std::string& name) {
  return std::get<Request>(
      decode_quota_bytes(test::golden_frame("ClientFrame", name).bytes())->body);
}

TEST(CapnpCodecQuotaDecode, counts_entries_by_their_subjects_or_by_their_counts) {
  EXPECT_EQ(golden<ReserveRequest>("reserve_256").entries_count(), 256u);
  EXPECT_EQ(golden<ReserveRequest>("reserve_columns").entries_count(), 2u);
  EXPECT_EQ(golden<ReserveRequest>("reserve_columns").subject_sizes.size(), 3u);
  EXPECT_EQ(golden<ReserveRequest>("reserve_none").entries_count(), 0u);
}

TEST(CapnpCodecQuotaDecode, returns_columns_in_place) {
  const auto& frame = test::golden_frame("ClientFrame", "reserve_columns");
  const auto reserve = golden<ReserveRequest>("reserve_columns");
  const auto lies_inside = [&](const void* address) {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= frame.bytes().data() && byte < frame.bytes().data() + frame.bytes().size();
  };
  EXPECT_TRUE(lies_inside(reserve.subjects.data()));
  EXPECT_TRUE(lies_inside(reserve.input_tokens.data()));
  EXPECT_TRUE(lies_inside(reserve.ids.data()));
  EXPECT_TRUE(lies_inside(reserve.owner.data()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reserve.input_tokens.data()) % 8, 0u);
}

TEST(CapnpCodecQuotaDecode, distinguishes_check_and_reserve) {
  const auto check = golden<CheckRequest>("check");
  EXPECT_EQ(check.subjects, "gpt-4o");
  EXPECT_EQ(check.input_tokens[0], 900u);
  EXPECT_FALSE(check.may_wait());
}

// Whether a request with these cached and input tokens of two entries is valid.
template <typename Request>
bool is_valid_use(const std::array<uint64_t, 2>& cached, const std::array<uint64_t, 2>& input) {
  const std::array<uint16_t, 2> sizes{1, 1};
  Request request{};
  request.subjects = "ab";
  request.subject_sizes = {sizes.data(), sizes.size()};
  request.cached_input_tokens = {cached.data(), cached.size()};
  request.input_tokens = {input.data(), input.size()};
  return check_request(request).has_value();
}

bool is_valid_settle(const std::array<uint64_t, 2>& cached, const std::array<uint64_t, 2>& input) {
  const std::array<uint64_t, 2> reservations{1, 2};
  SettleRequest request{};
  request.reservations = {reservations.data(), reservations.size()};
  request.cached_input_tokens = {cached.data(), cached.size()};
  request.input_tokens = {input.data(), input.size()};
  return check_request(request).has_value();
}

TEST(CapnpCodecQuotaDecode, refuses_more_cached_tokens_than_input_tokens) {
  EXPECT_TRUE(is_valid_settle({3, unset}, {3, 0}));
  EXPECT_FALSE(is_valid_settle({3, 4}, {3, 3}));
  // A settle without input tokens keeps the reserved ones.
  EXPECT_TRUE(is_valid_settle({3, 1}, {3, unset}));
  // What was used has none.
  for (const auto is_valid : {is_valid_use<RecordRequest>, is_valid_use<ConsumeRequest>}) {
    EXPECT_TRUE(is_valid({3, unset}, {3, unset}));
    EXPECT_FALSE(is_valid({3, 4}, {3, 3}));
    EXPECT_FALSE(is_valid({3, 1}, {3, unset}));
    EXPECT_TRUE(is_valid({3, 0}, {3, unset}));
  }
}

TEST(CapnpCodecQuotaDecode, returns_a_quota_as_it_was_put) {
  const api::Quota quota = *quota_of(golden<QuotaChangeRequest>("quota_put"));
  const api::Quota expected{.limits = {{.name = "tpm",
                                        .metric = api::Metric::tokens,
                                        .kind = api::LimitKind::sliding,
                                        .amount = 30'000,
                                        .period_ms = 60'000,
                                        .count_cached = true},
                                       {.name = "monthly cost",
                                        .metric = api::Metric::cost,
                                        .kind = api::LimitKind::calendar,
                                        .ceiling = api::Ceiling::block,
                                        .unit = api::CalendarUnit::month,
                                        .time_zone = "America/Los_Angeles"}},
                            .refund_expired = true,
                            .overtakers_max = 3};
  EXPECT_EQ(quota, expected);
  EXPECT_EQ(*quota_of(golden<QuotaChangeRequest>("quota_put_none")), api::Quota{});
}

TEST(CapnpCodecQuotaDecode, returns_no_quota_that_is_not_valid) {
  // ClientFrame{id = 7, quota = (subject = "a", quota = (limits = [(name = 40 times 'n')]))}.
  std::vector<uint64_t> words{0,
                              2ull << 32 | 1ull << 48,
                              7,
                              17,
                              1ull << 32 | 2ull << 48,
                              0,
                              5 | 2ull << 32 | 1ull << 35,
                              4 | 1ull << 32 | 2ull << 48,
                              'a',
                              0,
                              5 | 7ull << 32 | 6ull << 35,
                              0};
  words.insert(words.end(),
               {4 | 4ull << 32 | 2ull << 48, 0, 1, 2, 0, 5 | 2ull << 32 | 41ull << 35, 0});
  words.resize(words.size() + 5, 0x6E6E6E6E6E6E6E6E);
  words.push_back(0);
  words[0] = (words.size() - 1) << 32;
  const Outcome outcome = decode_quota_bytes(std::as_bytes(std::span(words)));
  ASSERT_TRUE(outcome) << error_name(outcome.error().code);
  const auto quota = quota_of(std::get<QuotaChangeRequest>(outcome->body));
  ASSERT_FALSE(quota);
  EXPECT_NE(quota.error().find(", name: must have 1 to 32 bytes, not "), std::string::npos)
      << quota.error();
  EXPECT_LE(quota.error().size(), invalid_detail_bytes_max);
}

TEST(CapnpCodecQuotaDecode, counts_the_complaints_for_which_there_is_no_room) {
  capnp::MallocMessageBuilder message(1 << 16);
  auto quota = message.initRoot<schema::ClientFrame>().initQuota();
  quota.setSubject(kj::StringPtr("a").asBytes());
  auto limits = quota.initQuota().initLimits(limits::quota_limits_max);
  const std::string name(300, 'n');
  for (auto limit : limits) limit.setName(name.c_str());
  const auto words = capnp::messageToFlatArray(message);
  const Outcome outcome = decode_quota_bytes(
      {reinterpret_cast<const std::byte*>(words.begin()), words.size() * sizeof(capnp::word)});
  ASSERT_TRUE(outcome) << error_name(outcome.error().code);
  const auto read = quota_of(std::get<QuotaChangeRequest>(outcome->body));
  ASSERT_FALSE(read);
  EXPECT_TRUE(read.error().ends_with(" more")) << read.error();
  EXPECT_LE(read.error().size(), invalid_detail_bytes_max);
  EXPECT_GT(read.error().size(), invalid_detail_bytes_max / 2);
}

}  // namespace
}  // namespace sluice::wire
