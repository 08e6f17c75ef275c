// Goal: the library decodes the same answers about quotas, within their bounds; parts that do not
//       fit into a reply are left out and counted.
// Method: random answers; the largest ones. capnp_codec_encode_test.cpp has the golden files.
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <rapidcheck.h>

#include <cstring>
#include <optional>

#include <string>
#include <vector>

#include "base/limits.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice::wire {
namespace {

// Encodes into a buffer full of old bytes that ends at a guard page; reads it with the library.
class EncodedFrame {
 public:
  template <typename Encode>
  EncodedFrame(size_t bytes_max, Encode encode)
      : buffer_(bytes_max), out_(buffer_.last(bytes_max)) {
    std::memset(out_.data(), 0xA5, out_.size());
    bytes_ = encode(out_);
    message_.emplace(kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(out_.data()), bytes_ / 8));
  }
  schema::ServerFrame::Reader root() { return message_->getRoot<schema::ServerFrame>(); }
  size_t bytes() const { return bytes_; }

 private:
  test::GuardedBuffer buffer_;
  std::span<std::byte> out_;
  size_t bytes_ = 0;
  std::optional<capnp::FlatArrayMessageReader> message_;
};

api::LimitReport report_named(std::string_view name, uint64_t number) {
  api::LimitReport report{.subject = static_cast<uint8_t>(number % 8),
                          .violated = number % 2 == 1,
                          .metric = static_cast<api::Metric>(number % api::metrics_count),
                          .kind = static_cast<api::LimitKind>(number % api::limit_kinds_count),
                          .name_bytes = static_cast<uint8_t>(name.size()),
                          .amount = number,
                          .used = number + 1,
                          .reserved = number + 2,
                          .remaining = number + 3,
                          .period_ms = static_cast<int64_t>(number + 4),
                          .reset_ms = static_cast<int64_t>(number + 5)};
  name.copy(report.name, name.size());
  return report;
}

void check_states(schema::LimitStates::Reader states, std::span<const uint32_t> entries,
                  std::span<const api::LimitReport> reports) {
  RC_ASSERT(states.getEntries().size() == reports.size());
  size_t at = 0;
  for (uint32_t index = 0; index < reports.size(); ++index) {
    const api::LimitReport& report = reports[index];
    RC_ASSERT(states.getEntries()[index] == entries[index]);
    RC_ASSERT(states.getSubjects()[index] == report.subject);
    RC_ASSERT(states.getViolated()[index] == (report.violated ? 1 : 0));
    RC_ASSERT(states.getMetrics()[index] == static_cast<uint8_t>(report.metric));
    RC_ASSERT(states.getKinds()[index] == static_cast<uint8_t>(report.kind));
    RC_ASSERT(states.getCeilings()[index] == static_cast<uint8_t>(report.ceiling));
    RC_ASSERT(states.getAmounts()[index] == report.amount);
    RC_ASSERT(states.getUsed()[index] == report.used);
    RC_ASSERT(states.getReserved()[index] == report.reserved);
    RC_ASSERT(states.getRemaining()[index] == report.remaining);
    RC_ASSERT(states.getPeriodMs()[index] == static_cast<uint64_t>(report.period_ms));
    RC_ASSERT(states.getResetMs()[index] == static_cast<uint64_t>(report.reset_ms));
    const auto name = states.getNames().slice(at, at + states.getNameSizes()[index]);
    RC_ASSERT(std::string(name.asChars().begin(), name.size()) == report.name_text());
    at += name.size();
  }
  RC_ASSERT(at == states.getNames().size());
}

// Answers with their limits in the reverse order, as if two shards had reported them.
struct AnsweredCalls {
  std::vector<api::QuotaAnswer> answers;
  std::vector<api::LimitReport> limits;
  std::vector<uint32_t> reported_entries;
  std::vector<api::LimitReport> reported_limits;
};

AnsweredCalls arbitrary_answers() {
  AnsweredCalls answered;
  answered.answers.resize(*rc::gen::inRange<size_t>(0, 20));
  const int codes_end = *rc::gen::element(2, 34);  // two: all are equal
  for (size_t left = answered.answers.size(); left > 0; --left) {
    api::QuotaAnswer& answer = answered.answers[left - 1];
    answer.code = static_cast<api::QuotaCode>(*rc::gen::inRange(1, codes_end));
    answer.reservation = *rc::gen::element<uint64_t>(0, 1, UINT64_MAX);
    answer.retry_after_ms = *rc::gen::element<int64_t>(0, 250, api::retry_never);
    answer.limits_left_out = *rc::gen::arbitrary<bool>();
    answer.first_limit = static_cast<uint32_t>(answered.limits.size());
    answer.limits_count = *rc::gen::inRange<uint32_t>(0, 4);
    for (uint32_t limit = 0; limit < answer.limits_count; ++limit) {
      const std::string name(*rc::gen::inRange<size_t>(1, 33), 'n');
      answered.limits.push_back(report_named(name, *rc::gen::inRange<uint64_t>(0, 1'000)));
    }
  }
  for (uint32_t entry = 0; entry < answered.answers.size(); ++entry) {
    const api::QuotaAnswer& answer = answered.answers[entry];
    for (uint32_t limit = 0; limit < answer.limits_count; ++limit) {
      answered.reported_entries.push_back(entry);
      answered.reported_limits.push_back(answered.limits[answer.first_limit + limit]);
    }
  }
  return answered;
}

template <typename List, typename Member>
void check_numbers(List list, const AnsweredCalls& answered, bool wanted, Member member) {
  bool any = false;
  for (const api::QuotaAnswer& answer : answered.answers) any = any || answer.*member != 0;
  RC_ASSERT(list.size() == (wanted && any ? answered.answers.size() : 0));
  for (uint32_t index = 0; index < list.size(); ++index) {
    RC_ASSERT(list[index] == answered.answers[index].*member);
  }
}

TEST(CapnpCodecQuotaEncode, encodes_answers_within_their_bound) {
  EXPECT_TRUE(rc::check([] {
    const AnsweredCalls answered = arbitrary_answers();
    const QuotaColumns columns{.reservations = *rc::gen::arbitrary<bool>(),
                               .retries = *rc::gen::arbitrary<bool>(),
                               .limits = *rc::gen::arbitrary<bool>()};
    const auto count = answered.answers.size();
    EncodedFrame reported(
        quota_answers_bytes_max(count, columns, answered.limits.size()), [&](auto out) {
          return encode_quota_answers(9, answered.answers, answered.limits, columns, out);
        });
    RC_ASSERT(reported.root().getId() == 9u);
    const auto answers = reported.root().getQuotaAnswers();
    RC_ASSERT(answers.getCount() == count);
    const auto codes = answers.getCodes();
    for (size_t index = 0; index < count; ++index) {
      RC_ASSERT(codes[codes.size() == 1 ? 0 : index] ==
                static_cast<uint8_t>(answered.answers[index].code));
    }
    check_numbers(answers.getReservations(), answered, columns.reservations,
                  &api::QuotaAnswer::reservation);
    check_numbers(answers.getRetryAfterMs(), answered, columns.retries,
                  &api::QuotaAnswer::retry_after_ms);
    if (!columns.limits) {
      RC_ASSERT(!answers.hasLimits());
      return;
    }
    check_states(answers.getLimits(), answered.reported_entries, answered.reported_limits);
    uint32_t left_out = 0;
    for (const api::QuotaAnswer& answer : answered.answers) left_out += answer.limits_left_out;
    RC_ASSERT(answers.getLimits().getLeftOut() == left_out);
  }));
}

TEST(CapnpCodecQuotaEncode, fits_the_largest_answers_into_a_reply) {
  EXPECT_LE(quota_answers_bytes_max(limits::quota_calls_max, {true, true, true},
                                    limits::quota_reports_max),
            limits::reply_bytes_max);
}

// ------------------------------------------------------------------------------------- usage

api::Quota quota_of_limits(size_t limits_count, size_t text_bytes) {
  api::Quota quota;
  for (size_t index = 0; index < limits_count; ++index) {
    quota.limits.push_back({.name = std::string(text_bytes, 'n'),
                            .metric = api::Metric::cost,
                            .kind = api::LimitKind::calendar,
                            .amount = index,
                            .unit = api::CalendarUnit::month,
                            .time_zone = std::string(text_bytes, 'z')});
  }
  return quota;
}

// Subjects with the same quota, and an answer for each, as a request by names has.
api::QuotaBatch subjects(size_t count, size_t name_bytes, const api::Quota& quota) {
  api::QuotaBatch batch;
  batch.quotas = {quota};
  for (uint32_t index = 0; index < count; ++index) {
    const auto limits_count = static_cast<uint32_t>(quota.limits.size());
    batch.answers.push_back({.code = api::QuotaCode::ok, .first_row = index, .rows_count = 1});
    batch.rows.push_back({.name_begin = static_cast<uint32_t>(batch.answer_text.size()),
                          .name_bytes = static_cast<uint32_t>(name_bytes),
                          .source = api::QuotaSource::run_time,
                          .first_limit = static_cast<uint32_t>(batch.limits.size()),
                          .limits_count = limits_count});
    batch.answer_text.append(name_bytes, 's');
    for (const api::Limit& limit : quota.limits) {
      batch.limits.push_back(report_named(limit.name, limit.amount));
    }
  }
  return batch;
}

EncodedFrame encoded_usage(const api::QuotaBatch& batch) {
  return EncodedFrame(usage_reply_bytes_max(batch),
                      [&](auto out) { return encode_usage_reply(3, batch, out); });
}

TEST(CapnpCodecQuotaEncode, encodes_all_of_typical_subjects) {
  EncodedFrame reported = encoded_usage(subjects(256, 30, quota_of_limits(3, 12)));
  const auto usage = reported.root().getUsageReply();
  ASSERT_EQ(usage.getNameSizes().size(), 256u);
  EXPECT_EQ(usage.getNames().size(), 256u * 30);
  EXPECT_EQ(usage.getLimits().getEntries().size(), 768u);
  EXPECT_EQ(usage.getLimits().getEntries()[767], 255u);
  EXPECT_EQ(usage.getLimits().getLeftOut(), 0u);
  const auto last = usage.getQuotas()[255].getLimits();
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[2].getName(), std::string(12, 'n'));
  EXPECT_EQ(last[2].getTimeZone(), std::string(12, 'z'));
  EXPECT_EQ(last[2].getAmount(), 2u);
}

// The reply has the names of all, quotas and limits of as many as fit.
TEST(CapnpCodecQuotaEncode, leaves_out_quotas_that_do_not_fit) {
  EncodedFrame reported = encoded_usage(subjects(256, 1'024, quota_of_limits(16, 32)));
  EXPECT_LE(reported.bytes(), limits::reply_bytes_max);
  const auto usage = reported.root().getUsageReply();
  ASSERT_EQ(usage.getQuotas().size(), 256u);
  EXPECT_EQ(usage.getNames().size(), 256u * 1'024);
  const uint32_t whole = 256 - usage.getLimits().getLeftOut();
  EXPECT_GT(whole, 50u);
  EXPECT_LT(whole, 256u);
  EXPECT_EQ(usage.getLimits().getEntries().size(), whole * 16);
  EXPECT_EQ(usage.getQuotas()[whole - 1].getLimits().size(), 16u);
  EXPECT_EQ(usage.getQuotas()[whole].getLimits().size(), 0u);
}

TEST(CapnpCodecQuotaEncode, counts_subjects_with_limits_left_out_by_the_batch) {
  api::QuotaBatch batch = subjects(2, 5, quota_of_limits(2, 3));
  batch.rows[1].limits_count = 1;
  EncodedFrame reported = encoded_usage(batch);
  EXPECT_EQ(reported.root().getUsageReply().getLimits().getLeftOut(), 1u);
}

}  // namespace
}  // namespace sluice::wire
