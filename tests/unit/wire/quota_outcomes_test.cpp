// Goal: the answers of another node arrive whole, and none that points outside its lists does.
// Method: outcomes are written and read again; single values of a frame are set with the library.
#include "wire/quota_outcomes.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <cstring>
#include <functional>
#include <string>

#include "wire/lane_codec.hpp"

namespace sluice::wire {
namespace {

using api::QuotaAnswer;
using api::QuotaCode;
using api::QuotaOp;

std::optional<QuotaOutcomes> read(const FrameWords& words) {
  const auto decoded = decode_owner_frame(std::as_bytes(std::span(words)));
  if (!decoded) return std::nullopt;
  const auto* const frame = std::get_if<QuotaOutcomesFrame>(&decoded->body);
  if (frame == nullptr) return std::nullopt;
  EXPECT_EQ(decoded->id, 12U);
  return read_outcomes(*frame);
}

api::LimitReport limit_of(std::string_view name, uint64_t used) {
  api::LimitReport limit{.subject = 1,
                         .violated = true,
                         .metric = api::Metric::tokens,
                         .kind = api::LimitKind::sliding,
                         .ceiling = api::Ceiling::number,
                         .name_bytes = static_cast<uint8_t>(name.size()),
                         .amount = 100,
                         .used = used,
                         .reserved = 5,
                         .remaining = 100 - used,
                         .period_ms = 60'000,
                         .reset_ms = 500};
  std::memcpy(limit.name, name.data(), name.size());
  return limit;
}

// A batch with an answer of each shape.
api::QuotaBatch decided() {
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::reserve, .subjects_count = 1},
                 {.op = QuotaOp::usage, .subjects_count = 1},
                 {.op = QuotaOp::holders, .subjects_count = 1},
                 {.op = QuotaOp::settle}};
  batch.subjects = {"gpt"};
  batch.answers = {{.code = QuotaCode::tpm_exceeded,
                    .limits_left_out = true,
                    .first_limit = 0,
                    .limits_count = 1,
                    .retry_after_ms = api::retry_never},
                   {.code = QuotaCode::ok, .first_row = 0, .rows_count = 1, .position = 3},
                   {.code = QuotaCode::ok, .rows_count = 1, .next_cursor = 88, .first_holder = 0},
                   {.code = QuotaCode::ok,
                    .state = api::ReservationState::settled,
                    .late = true,
                    .reservation = 7,
                    .lifetime_ms = 9,
                    .amounts = {.requests = 1, .input_tokens = 2, .output_tokens = 3, .cost = 4}}};
  batch.limits = {limit_of("tpm", 90), limit_of("rpm", 1)};
  batch.answer_text = "gpt somebody";
  batch.quotas = {
      {.limits = {{.name = "rpm", .amount = 100, .period_ms = 60'000}}, .profile = "small"}};
  batch.rows = {{.name_begin = 0,
                 .name_bytes = 3,
                 .source = api::QuotaSource::profile,
                 .quota = 0,
                 .first_limit = 1,
                 .limits_count = 1,
                 .open_reservations = 4,
                 .waiting = 5}};
  api::HolderRow holder{.reservation = 7,
                        .amounts = {.requests = 1, .input_tokens = 2},
                        .admission = QuotaCode::ok,
                        .state = api::ReservationState::open,
                        .connection_bound = true,
                        .lifetime_ms = 900,
                        .held_ms = 100,
                        .owner = {.begin = 4, .bytes = 8},
                        .subjects_count = 1,
                        .subjects_left_out = 2};
  holder.subjects[0] = {.begin = 0, .bytes = 3};
  batch.holders = {holder};
  return batch;
}

TEST(QuotaOutcomes, arrive_whole) {
  const api::QuotaBatch batch = decided();
  const auto outcomes = read(encode_outcomes(12, outcomes_of(batch)));
  ASSERT_TRUE(outcomes);
  EXPECT_TRUE(outcomes->entries.empty());
  EXPECT_TRUE(are_answers_to(*outcomes, batch.calls));
  ASSERT_EQ(outcomes->answers.size(), 4U);
  EXPECT_EQ(outcomes->answers[0].code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(outcomes->answers[0].retry_after_ms, api::retry_never);
  EXPECT_TRUE(outcomes->answers[0].limits_left_out);
  EXPECT_EQ(outcomes->answers[1].position, 3U);
  EXPECT_EQ(outcomes->answers[2].next_cursor, 88U);
  EXPECT_EQ(outcomes->answers[3].reservation, 7U);
  EXPECT_EQ(outcomes->answers[3].lifetime_ms, 9U);
  EXPECT_EQ(outcomes->answers[3].amounts, batch.answers[3].amounts);
  EXPECT_EQ(outcomes->answers[3].state, api::ReservationState::settled);
  EXPECT_TRUE(outcomes->answers[3].late);
  ASSERT_EQ(outcomes->limits.size(), 2U);
  EXPECT_EQ(outcomes->limits[0].name_text(), "tpm");
  EXPECT_EQ(outcomes->limits[0].used, 90U);
  EXPECT_EQ(outcomes->limits[0].reset_ms, 500);
  EXPECT_TRUE(outcomes->limits[0].violated);
  EXPECT_EQ(outcomes->quotas, batch.quotas);
  EXPECT_EQ(outcomes->text, batch.answer_text);
  ASSERT_EQ(outcomes->rows.size(), 1U);
  EXPECT_EQ(outcomes->rows[0].open_reservations, 4U);
  EXPECT_EQ(outcomes->rows[0].source, api::QuotaSource::profile);
  ASSERT_EQ(outcomes->holders.size(), 1U);
  EXPECT_EQ(outcomes->holders[0].held_ms, 100);
  EXPECT_EQ(outcomes->holders[0].owner.bytes, 8U);
  EXPECT_EQ(outcomes->holders[0].subjects[0].bytes, 3U);
  EXPECT_EQ(outcomes->holders[0].subjects_left_out, 2);
  EXPECT_TRUE(outcomes->holders[0].connection_bound);
}

// The node that answers has its time zones.
TEST(QuotaOutcomes, show_quotas_that_this_machine_could_not_keep) {
  api::QuotaBatch batch = decided();
  api::Limit& limit = batch.quotas[0].limits[0];
  limit.kind = api::LimitKind::calendar;
  limit.period_ms = 0;
  limit.unit = api::CalendarUnit::day;
  limit.time_zone = "Mars/Olympus";
  const auto outcomes = read(encode_outcomes(12, outcomes_of(batch)));
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(outcomes->quotas, batch.quotas);
}

TEST(QuotaOutcomes, of_calls_that_have_waited_name_them) {
  const std::vector<uint32_t> entries{3, 9};
  const std::vector<QuotaAnswer> answers{{.code = QuotaCode::ok, .reservation = 5},
                                         {.code = QuotaCode::wait_limit, .retry_after_ms = 70}};
  const auto outcomes = read(encode_outcomes(12, {.entries = entries,
                                                  .answers = answers,
                                                  .limits = {},
                                                  .rows = {},
                                                  .holders = {},
                                                  .quotas = {},
                                                  .text = {}}));
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(outcomes->entries, entries);
  EXPECT_EQ(outcomes->answers[1].retry_after_ms, 70);
  EXPECT_FALSE(are_answers_to(*outcomes, std::vector<api::QuotaCall>(2)));
}

TEST(QuotaOutcomes, are_the_answers_to_these_calls_only) {
  const api::QuotaBatch batch = decided();
  auto outcomes = read(encode_outcomes(12, outcomes_of(batch)));
  ASSERT_TRUE(outcomes);
  std::vector<api::QuotaCall> calls = batch.calls;
  calls.pop_back();
  EXPECT_FALSE(are_answers_to(*outcomes, calls));
  calls = batch.calls;
  outcomes->answers[0].code = QuotaCode::queued;
  EXPECT_FALSE(are_answers_to(*outcomes, calls));
  calls[0].flags = api::quota_flag::may_wait;
  EXPECT_TRUE(are_answers_to(*outcomes, calls));
  outcomes->answers[1].rows_count = 2;
  EXPECT_FALSE(are_answers_to(*outcomes, calls));
  calls[1].op = QuotaOp::show;
  outcomes->answers[1].rows_count = 1;
  EXPECT_TRUE(are_answers_to(*outcomes, calls));
  outcomes->answers[1].first_holder = 1;
  EXPECT_FALSE(are_answers_to(*outcomes, calls));
}

TEST(QuotaOutcomes, the_verdict_that_a_call_waits_on_is_one_for_its_try) {
  const std::vector<api::QuotaCall> tried{{.op = QuotaOp::consume, .subjects_count = 2}};
  QuotaOutcomes outcomes;
  outcomes.answers = {{.code = QuotaCode::queued}};
  EXPECT_FALSE(are_answers_to(outcomes, tried));
  outcomes.parts.resize(1);
  EXPECT_TRUE(are_answers_to(outcomes, tried));
  outcomes.parts[0].is_repeat = true;  // then it would be the answer of the call
  EXPECT_FALSE(are_answers_to(outcomes, tried));
}

TEST(QuotaOutcomes, a_code_of_a_newer_node_is_a_refusal) {
  const std::vector<QuotaAnswer> answers{{.code = static_cast<QuotaCode>(200)}};
  api::QuotaBatch batch;
  batch.answers = answers;
  const auto outcomes = read(encode_outcomes(12, outcomes_of(batch)));
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(outcomes->answers[0].code, QuotaCode::owner_unreachable);
}

bool is_read_with(const std::function<void(api::QuotaBatch&)>& change) {
  api::QuotaBatch batch = decided();
  change(batch);
  return read(encode_outcomes(12, outcomes_of(batch))).has_value();
}

TEST(QuotaOutcomes, that_point_outside_their_lists_are_refused) {
  EXPECT_TRUE(is_read_with([](auto&) {}));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.answers[0].code = QuotaCode::none; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.answers[0].limits_count = 3; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.answers[0].first_limit = UINT32_MAX; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.answers[0].retry_after_ms = -2; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.rows[0].quota = 1; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.rows[0].name_bytes = 13; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.rows[0].first_limit = 2; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.rows[0].limits_count = 2; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.holders[0].owner.begin = 5; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.holders[0].subjects[0].begin = 12; }));
  EXPECT_FALSE(is_read_with([](auto& batch) { batch.limits[0].period_ms = -1; }));
  EXPECT_FALSE(
      is_read_with([](auto& batch) { batch.limits[0].metric = static_cast<api::Metric>(6); }));
}

TEST(QuotaOutcomes, are_not_longer_than_promised) {
  const api::QuotaBatch batch = decided();
  EXPECT_LE(encode_outcomes(12, outcomes_of(batch)).size() * sizeof(uint64_t),
            outcomes_bytes_max(batch));
  // As many calls as a frame may have, each with all limits: a reply.
  api::QuotaBatch most;
  for (size_t i = 0; i < forwarded_calls_max; ++i) {
    most.calls.push_back({.op = QuotaOp::reserve, .subjects_count = limits::call_subjects_max});
    most.answers.push_back({.code = QuotaCode::ok});
  }
  most.limits.assign(limits::quota_reports_max, limit_of(std::string(32, 'n'), 1));
  const FrameWords words = encode_outcomes(12, outcomes_of(most));
  EXPECT_LE(words.size() * sizeof(uint64_t), outcomes_bytes_max(most));
  EXPECT_LE(words.size() * sizeof(uint64_t), limits::reply_bytes_max);
  EXPECT_EQ(words[0] & 0xFFFF'FFFF, 0U);  // one segment
}

// A quota with as much text as one may have.
api::Quota longest_quota() {
  api::Quota quota{.limits = {}, .refund_expired = true, .profile = std::string(64, 'p')};
  for (size_t i = 0; i < limits::quota_limits_max; ++i) {
    quota.limits.push_back(
        {.name = std::string(limits::limit_name_bytes_max - 1, '"') + static_cast<char>('a' + i),
         .metric = api::Metric::input_tokens,
         .kind = api::LimitKind::calendar,
         .amount = limits::amount_max,
         .unit = api::CalendarUnit::month,
         .time_zone = "America/Argentina/ComodRivadavia",
         .count_cached = true});
  }
  return quota;
}

void add_row(api::QuotaBatch& batch, std::string_view name) {
  api::SubjectRow row{.name_begin = static_cast<uint32_t>(batch.answer_text.size()),
                      .name_bytes = static_cast<uint32_t>(name.size()),
                      .source = api::QuotaSource::run_time,
                      .quota = static_cast<uint32_t>(batch.quotas.size()),
                      .first_limit = static_cast<uint32_t>(batch.limits.size()),
                      .limits_count = limits::quota_limits_max};
  batch.answer_text += name;
  batch.quotas.push_back(longest_quota());
  batch.limits.insert(batch.limits.end(), limits::quota_limits_max,
                      limit_of(std::string(limits::limit_name_bytes_max, 'n'), 1));
  batch.rows.push_back(row);
}

void add_holder(api::QuotaBatch& batch, const std::vector<std::string>& names) {
  api::HolderRow& row =
      batch.holders.emplace_back(api::HolderRow{.subjects_count = limits::call_subjects_max});
  row.owner = {.begin = static_cast<uint32_t>(batch.answer_text.size()),
               .bytes = limits::client_id_bytes_max};
  batch.answer_text += std::string(limits::client_id_bytes_max, 'o');
  for (size_t at = 0; at < names.size(); ++at) {
    row.subjects[at] = {.begin = static_cast<uint32_t>(batch.answer_text.size()),
                        .bytes = static_cast<uint32_t>(names[at].size())};
    batch.answer_text += names[at];
  }
}

void expect_as_promised(const api::QuotaBatch& batch) {
  const FrameWords words = encode_outcomes(12, outcomes_of(batch));
  EXPECT_LE(words.size() * sizeof(uint64_t), outcomes_bytes_max(batch));
  EXPECT_LE(words.size() * sizeof(uint64_t), limits::reply_bytes_max);
  EXPECT_TRUE(read(words));
}

TEST(QuotaOutcomes, of_usage_are_not_longer_than_promised) {
  const std::string name(limits::frame_bytes_max / forwarded_rows_calls_max, 'x');
  api::QuotaBatch batch;
  for (uint32_t i = 0; i < forwarded_rows_calls_max; ++i) {
    batch.calls.push_back({.op = QuotaOp::usage, .subjects_count = 1, .first_subject = i});
    batch.subjects.push_back(name);
    batch.answers.push_back({.code = QuotaCode::ok, .first_row = i, .rows_count = 1});
    add_row(batch, name);
  }
  expect_as_promised(batch);
}

TEST(QuotaOutcomes, of_a_reservation_are_not_longer_than_promised) {
  const std::string name(limits::frame_bytes_max / limits::call_subjects_max, 'x');
  const std::string held(limits::holders_text_bytes_max / limits::call_subjects_max, 'x');
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::show, .reservation = 9}};
  batch.answers = {{.code = QuotaCode::ok, .rows_count = limits::call_subjects_max}};
  for (uint32_t i = 0; i < limits::call_subjects_max; ++i) add_row(batch, name);
  add_holder(batch, std::vector(limits::call_subjects_max, held));
  expect_as_promised(batch);
}

TEST(QuotaOutcomes, of_holders_are_not_longer_than_promised) {
  const std::string name(1'024, 'x');
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::holders, .subjects_count = 1}};
  batch.subjects = {"gpt"};
  batch.answers = {{.code = QuotaCode::ok, .rows_count = limits::subjects_page_max}};
  // As the shards do: no names from four times the text of a page on.
  for (uint32_t i = 0; i < limits::subjects_page_max; ++i) {
    const bool is_full = batch.answer_text.size() >= 4 * limits::holders_text_bytes_max;
    add_holder(batch, std::vector(is_full ? 0 : limits::call_subjects_max, name));
  }
  expect_as_promised(batch);
}

TEST(QuotaOutcomes, of_a_quota_that_is_put_are_not_longer_than_promised) {
  const std::string name(limits::key_bytes_max, 'x');
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
  batch.subjects = {name};
  batch.answers = {{.code = QuotaCode::ok, .rows_count = 1}};
  add_row(batch, name);
  expect_as_promised(batch);
  // A node that hands them over gets no rows.
  batch.calls[0].flags = api::quota_flag::handed_over;
  EXPECT_LT(outcomes_bytes_max(batch), 1'024U);
}

}  // namespace
}  // namespace sluice::wire
