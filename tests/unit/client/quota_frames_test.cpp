// Goal: requests about quotas equal the frames of the `capnp` tool, and inconsistent answers are
// refused. Method: golden files; the library as a hostile server.
#include "sluicegate/quota_frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fake_server.hpp"
#include "sluicegate/frames.hpp"
#include "tests/support/golden_files.hpp"

namespace sluicegate {
namespace {

template <typename Request>
void expect_golden(const std::string& name, const Request& request) {
  std::vector<uint64_t> frame;
  encode(7, request, frame);
  const auto expected = sluice::test::golden_frame("ClientFrame", name).bytes();
  const auto bytes = std::as_bytes(std::span{frame});
  EXPECT_TRUE(std::ranges::equal(bytes, expected)) << name;
}

constexpr std::array<std::string_view, 1> one{"gpt-4o"};
constexpr std::array<std::string_view, 2> two{"gpt-4o", "claude"};
constexpr std::array<std::string_view, 3> tagged{"{acme}", "{acme}.gpt-4o", "claude"};
constexpr std::array<uint8_t, 2> counts{2, 1};
constexpr std::array<uint64_t, 2> reservations{0x0200'0011'89AB'CDEF, 0x0200'0011'89AB'CDF0};

TEST(QuotaFrames, reserves_equal_the_golden_files) {
  const std::array<uint32_t, 1> once{1};
  const std::array<uint64_t, 1> input{900}, output{500};
  expect_golden("reserve_one", Reserve{.subjects = one});
  expect_golden(
      "reserve",
      Reserve{
          .subjects = one, .requests = once, .input_tokens = input, .max_output_tokens = output});
  const Reserve checked{.flags = quota_flag::wants_limits | quota_flag::wants_violated,
                        .subjects = one,
                        .input_tokens = input,
                        .max_output_tokens = output};
  expect_golden("check", Check{checked});
  const std::array<uint32_t, 2> requests{1, keep};
  const std::array<uint64_t, 2> inputs{900, unset}, outputs{500, amount_max}, costs{0, 7};
  const std::array<std::string_view, 2> ids{"call-1", ""};
  expect_golden("reserve_columns", Reserve{.flags = 15,
                                           .wait_limit_ms = 250,
                                           .lifetime_ms = 60'000,
                                           .subjects = tagged,
                                           .subject_counts = counts,
                                           .requests = requests,
                                           .input_tokens = inputs,
                                           .max_output_tokens = outputs,
                                           .costs = costs,
                                           .ids = ids,
                                           .owner = "worker 3"});
}

TEST(QuotaFrames, ends_of_reservations_equal_the_golden_files) {
  const std::array<uint64_t, 2> inputs{880, 0}, outputs{312, 0};
  expect_golden(
      "settle",
      Settle{.reservations = reservations, .input_tokens = inputs, .output_tokens = outputs});
  const std::array<uint64_t, 2> some{reservations[0], 0}, all_inputs{880, unset};
  const std::array<uint64_t, 2> all_outputs{312, 5}, costs{7, unset};
  const std::array<uint32_t, 2> requests{2, keep};
  expect_golden("settle_columns", Settle{.reservations = some,
                                         .requests = requests,
                                         .input_tokens = all_inputs,
                                         .cached_input_tokens = all_inputs,
                                         .output_tokens = all_outputs,
                                         .costs = costs});
  const std::span<const uint64_t> first{reservations.data(), 1};
  expect_golden("cancel", Cancel{.reservations = first});
  expect_golden("cancel_keep_requests",
                Cancel{.flags = quota_flag::keep_requests, .reservations = reservations});
  expect_golden("extend", Extend{.reservations = first, .lifetime_ms = 60'000});
}

TEST(QuotaFrames, records_equal_the_golden_files) {
  const std::array<uint32_t, 2> requests{0, keep};
  const std::array<uint64_t, 2> inputs{880, 10}, cached{80, unset}, outputs{312, unset};
  const std::array<uint64_t, 2> costs{0, amount_max};
  const std::array<std::string_view, 2> ids{"", "job 7"};
  expect_golden("record_columns", Record{.flags = quota_flag::wants_limits,
                                         .subjects = tagged,
                                         .subject_counts = counts,
                                         .requests = requests,
                                         .input_tokens = inputs,
                                         .cached_input_tokens = cached,
                                         .output_tokens = outputs,
                                         .costs = costs,
                                         .ids = ids});
  std::vector<std::string_view> named{"gpt-4o", "acme", "claude"};
  const std::array<std::string_view, 2> first{"job 7", ""};
  const Record used{
      .flags = quota_flag::may_wait | quota_flag::wants_limits | quota_flag::wants_violated,
      .subjects = named,
      .subject_counts = counts,
      .requests = requests,
      .input_tokens = inputs,
      .cached_input_tokens = cached,
      .output_tokens = outputs,
      .costs = costs,
      .ids = first};
  expect_golden("consume_columns", Consume{.record = used, .wait_limit_ms = 2'000});
}

TEST(QuotaFrames, questions_about_subjects_equal_the_golden_files) {
  expect_golden("usage", AskUsage{.subjects = two});
  expect_golden("usage_page", AskUsage{.cursor = 1'099'511'627'777, .limit = 100});
  expect_golden("quota_remove", RemoveQuota{.subject = "gpt-4o"});
  expect_golden("reset", Reset{.subject = "gpt-4o"});
  expect_golden("reset_all", Reset{});
  Quota quota{.refund_expired = true, .overtakers_max = 3};
  quota.limits.push_back({.name = "tpm",
                          .metric = Metric::tokens,
                          .kind = LimitKind::sliding,
                          .amount = 30'000,
                          .period_ms = 60'000,
                          .count_cached = true});
  quota.limits.push_back({.name = "monthly cost",
                          .metric = Metric::cost,
                          .kind = LimitKind::calendar,
                          .ceiling = Ceiling::block,
                          .unit = CalendarUnit::month,
                          .time_zone = "America/Los_Angeles"});
  expect_golden("quota_put", PutQuota{.subject = "gpt-4o", .quota = quota});
  expect_golden("quota_put_none", PutQuota{.subject = "gpt-4o", .quota = {}});
}

TEST(QuotaFrames, refuse_columns_that_do_not_fit_together) {
  std::vector<uint64_t> frame;
  const std::array<uint64_t, 3> three{};
  const std::array<uint8_t, 1> too_few{2};
  EXPECT_THROW(encode(7, Reserve{.subjects = two, .costs = three}, frame), LimitExceeded);
  EXPECT_THROW(encode(7, Reserve{.subjects = tagged, .subject_counts = too_few}, frame),
               LimitExceeded);
  EXPECT_THROW(encode(7, Settle{.reservations = reservations, .costs = three}, frame),
               LimitExceeded);
  EXPECT_TRUE(frame.empty());
}

Answer decode_bytes(const std::string& bytes) {
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return decode(words);
}

TEST(QuotaFrames, answers_with_columns_of_different_lengths_are_refused) {
  const auto answered = [](uint32_t count, const std::vector<uint64_t>& given) {
    return test::answer(7, [&](auto frame) {
      auto to = frame.initQuotaAnswers();
      to.setCount(count);
      const std::vector<uint8_t> codes{1};
      to.setCodes(kj::arrayPtr(codes.data(), codes.size()));
      to.setReservations(kj::arrayPtr(given.data(), given.size()));
    });
  };
  EXPECT_NO_THROW(decode_bytes(answered(2, {5, 6})));
  EXPECT_THROW(decode_bytes(answered(2, {5})), ProtocolError);
}

TEST(QuotaFrames, limits_with_wrong_name_sizes_are_refused) {
  const auto reply = [](uint8_t name_bytes) {
    return test::answer(7, [&](auto frame) {
      auto limits = frame.initQuotaAnswers().initLimits();
      limits.initEntries(1);
      limits.initSubjects(1);
      limits.setNames(kj::arrayPtr(reinterpret_cast<const kj::byte*>("tpm"), 3));
      limits.setNameSizes({name_bytes});
      for (auto column : {limits.initMetrics(1), limits.initKinds(1), limits.initCeilings(1),
                          limits.initViolated(1)}) {
        column.set(0, 0);
      }
      for (auto column : {limits.initAmounts(1), limits.initUsed(1), limits.initReserved(1),
                          limits.initRemaining(1), limits.initPeriodMs(1), limits.initResetMs(1)}) {
        column.set(0, 0);
      }
    });
  };
  EXPECT_NO_THROW(decode_bytes(reply(3)));
  EXPECT_THROW(decode_bytes(reply(4)), ProtocolError);
}

TEST(QuotaFrames, limits_without_a_subject_are_refused) {
  const auto reply = test::answer(7, [](auto frame) {
    auto limits = frame.initUsageReply().initLimits();
    limits.initEntries(1);
    limits.initSubjects(1);
    limits.initNameSizes(1);
    limits.initMetrics(1);
    limits.initKinds(1);
    limits.initCeilings(1);
    limits.initViolated(1);
    limits.initAmounts(1);
    limits.initUsed(1);
    limits.initReserved(1);
    limits.initRemaining(1);
    limits.initPeriodMs(1);
    limits.initResetMs(1);
  });
  EXPECT_THROW(decode_bytes(reply), ProtocolError);
}

}  // namespace
}  // namespace sluicegate
