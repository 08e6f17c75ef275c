// Goal: outcomes keep their numbers, names and the reference's sentences, and whether a retry may
//       help; a batch outlives the bytes that it was read from.
// Method: all codes, one by one; batches with texts that are overwritten later.
#include "api/quota.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>

namespace sluice::api {
namespace {

TEST(QuotaCode, keeps_its_numbers_and_names) {
  const std::array<std::string_view, quota_codes_count> names{
      "none",
      "ok",
      "unlimited",
      "unknown_subject_allowed",
      "queued",
      "rpd_exceeded",
      "rpm_exceeded",
      "tpm_exceeded",
      "requests_exceeded",
      "input_tokens_exceeded",
      "output_tokens_exceeded",
      "tokens_exceeded",
      "cost_exceeded",
      "concurrency_exceeded",
      "queue_ahead",
      "deadline_unmeetable",
      "wait_limit",
      "withdrawn",
      "draining",
      "waiters_full",
      "reservations_full",
      "subjects_full",
      "id_in_use",
      "exceeds_limit",
      "blocked",
      "unknown_subject",
      "subjects_apart",
      "invalid_subject",
      "unknown_reservation",
      "already_settled",
      "already_cancelled",
      "already_expired",
      "invalid_quota",
      "no_such_quota",
      "connection_waiters_full",
      "subject_waiters_full",
      "not_durable",
      "memory_only",
      "owner_unreachable",
      "failed_closed",
  };
  for (size_t number = 0; number < names.size(); ++number) {
    EXPECT_EQ(code_name(static_cast<QuotaCode>(number)), names[number]) << number;
  }
  EXPECT_EQ(code_name(static_cast<QuotaCode>(quota_codes_count)), "none");
}

TEST(QuotaCode, uses_the_sentences_of_the_reference) {
  EXPECT_EQ(code_reason(QuotaCode::ok), "within quota");
  EXPECT_EQ(code_reason(QuotaCode::unknown_subject_allowed),
            "subject has no configured quota, and unknown ones are allowed");
  EXPECT_EQ(code_reason(QuotaCode::unlimited), "all limits are unlimited");
  EXPECT_EQ(code_reason(QuotaCode::rpd_exceeded), "daily request limit reached");
  EXPECT_EQ(code_reason(QuotaCode::rpm_exceeded), "per-minute request limit reached");
  EXPECT_EQ(code_reason(QuotaCode::tpm_exceeded), "per-minute token limit reached");
}

TEST(QuotaCode, has_a_sentence_of_its_own) {
  std::set<std::string_view> reasons;
  for (uint32_t number = 1; number < quota_codes_count; ++number) {
    EXPECT_TRUE(reasons.insert(code_reason(static_cast<QuotaCode>(number))).second) << number;
  }
  EXPECT_FALSE(reasons.contains(""));
}

TEST(QuotaCode, three_of_them_admit) {
  std::set<QuotaCode> admitting;
  for (uint32_t number = 0; number < quota_codes_count; ++number) {
    if (admits(static_cast<QuotaCode>(number))) admitting.insert(static_cast<QuotaCode>(number));
  }
  EXPECT_EQ(admitting,
            (std::set{QuotaCode::ok, QuotaCode::unlimited, QuotaCode::unknown_subject_allowed}));
}

TEST(QuotaCode, denials_for_lack_of_room_or_time_may_be_retried) {
  for (const QuotaCode code : {QuotaCode::rpd_exceeded,
                               QuotaCode::rpm_exceeded,
                               QuotaCode::tpm_exceeded,
                               QuotaCode::requests_exceeded,
                               QuotaCode::input_tokens_exceeded,
                               QuotaCode::output_tokens_exceeded,
                               QuotaCode::tokens_exceeded,
                               QuotaCode::cost_exceeded,
                               QuotaCode::concurrency_exceeded,
                               QuotaCode::queue_ahead,
                               QuotaCode::deadline_unmeetable,
                               QuotaCode::wait_limit,
                               QuotaCode::draining,
                               QuotaCode::waiters_full,
                               QuotaCode::reservations_full,
                               QuotaCode::subjects_full,
                               QuotaCode::connection_waiters_full,
                               QuotaCode::subject_waiters_full,
                               QuotaCode::not_durable,
                               QuotaCode::memory_only,
                               QuotaCode::owner_unreachable,
                               QuotaCode::failed_closed}) {
    EXPECT_TRUE(may_retry(code)) << code_name(code);
  }
  for (const QuotaCode code :
       {QuotaCode::none, QuotaCode::ok, QuotaCode::unlimited, QuotaCode::unknown_subject_allowed,
        QuotaCode::queued, QuotaCode::withdrawn, QuotaCode::id_in_use, QuotaCode::exceeds_limit,
        QuotaCode::blocked, QuotaCode::unknown_subject, QuotaCode::subjects_apart,
        QuotaCode::invalid_subject, QuotaCode::unknown_reservation, QuotaCode::already_settled,
        QuotaCode::already_cancelled, QuotaCode::already_expired, QuotaCode::invalid_quota,
        QuotaCode::no_such_quota}) {
    EXPECT_FALSE(may_retry(code)) << code_name(code);
  }
}

TEST(QuotaCode, of_changes_that_are_not_in_the_state_file_have_cause_and_cure) {
  EXPECT_EQ(code_reason(QuotaCode::not_durable),
            "nothing was changed: the server cannot write its state file (--state) now, and its "
            "log says why: try again later");
  EXPECT_EQ(code_reason(QuotaCode::memory_only),
            "changed in memory only: the server could not write its state file (--state), and its "
            "log says why: repeat the call once it can, or a restart may undo the change");
}

TEST(ReservationState, keeps_its_numbers_and_names) {
  EXPECT_EQ(state_name(static_cast<ReservationState>(0)), "none");
  EXPECT_EQ(state_name(static_cast<ReservationState>(1)), "open");
  EXPECT_EQ(state_name(static_cast<ReservationState>(2)), "settled");
  EXPECT_EQ(state_name(static_cast<ReservationState>(3)), "cancelled");
  EXPECT_EQ(state_name(static_cast<ReservationState>(4)), "expired");
}

// A frame's bytes, which another one overwrites as soon as they were read.
struct Bytes {
  std::string subjects = "{t}first{t}second";
  std::string id = "an id of the client's";
  std::string owner = "worker 7";

  void fill(QuotaBatch& batch) {
    const std::string_view text = subjects;
    batch.subjects = {text.substr(0, 8), text.substr(8)};
    batch.calls.push_back({.subjects_count = 2, .client_id = id, .owner = owner});
  }
  void overwrite() {
    subjects.assign(subjects.size(), '#');
    id.assign(id.size(), '#');
    owner.assign(owner.size(), '#');
  }
};

void expect_texts(const QuotaBatch& batch) {
  EXPECT_EQ(batch.subjects[0], "{t}first");
  EXPECT_EQ(batch.subjects[1], "{t}second");
  EXPECT_EQ(batch.calls[0].client_id, "an id of the client's");
  EXPECT_EQ(batch.calls[0].owner, "worker 7");
}

TEST(QuotaBatch, owns_its_texts_when_asked_to) {
  Bytes bytes;
  QuotaBatch batch;
  bytes.fill(batch);
  batch.own_texts();
  bytes.overwrite();
  expect_texts(batch);
}

TEST(QuotaBatch, keeps_its_own_texts_when_it_moves) {
  QuotaBatch batch;
  std::string name = "a";  // so short that a string would hold it in itself
  batch.subjects = {name};
  batch.calls.push_back({.subjects_count = 1});
  batch.own_texts();
  const QuotaBatch moved = std::move(batch);
  name[0] = '#';
  EXPECT_EQ(moved.subjects[0], "a");
}

TEST(QuotaBatch, has_one_empty_answer_for_each_call) {
  QuotaBatch batch;
  batch.calls.resize(3);
  batch.make_answers();
  batch.answers[1].code = QuotaCode::ok;
  batch.limits.resize(2);
  batch.rows.resize(2);
  batch.quotas.resize(2);
  batch.answer_text.push_back('x');
  batch.make_answers();
  ASSERT_EQ(batch.answers.size(), 3U);
  EXPECT_EQ(batch.answers[1].code, QuotaCode::none);
  EXPECT_TRUE(batch.limits.empty() && batch.rows.empty() && batch.quotas.empty());
  EXPECT_EQ(batch.answer_text, "");
}

TEST(QuotaBatch, holds_only_its_memory_when_cleared) {
  Bytes bytes;
  QuotaBatch batch;
  bytes.fill(batch);
  batch.new_quotas.resize(1);
  batch.wait_answers.resize(1);
  batch.frame_bytes = 7;
  batch.kind = 3;
  batch.own_texts();
  batch.make_answers();
  const size_t capacity = batch.calls.capacity();
  batch.clear();
  EXPECT_TRUE(batch.calls.empty() && batch.subjects.empty() && batch.new_quotas.empty());
  EXPECT_TRUE(batch.answers.empty() && batch.wait_answers.empty());
  EXPECT_EQ(batch.frame_bytes, 0U);
  EXPECT_EQ(batch.kind, 0U);
  EXPECT_EQ(batch.calls.capacity(), capacity);
}

TEST(QuotaBatch, rows_find_their_names) {
  QuotaBatch batch;
  batch.answer_text = "onetwo";
  EXPECT_EQ(batch.name_of({.name_begin = 3, .name_bytes = 3}), "two");
}

TEST(HolderRow, names_are_packed_once_and_for_all) {
  HolderRow row;
  row.subjects[2] = {.begin = 5, .bytes = 1};
  row.subjects[4] = {.begin = 7, .bytes = 1};
  for (int times = 0; times < 2; ++times) {
    row.pack_subjects();
    ASSERT_EQ(row.subjects_count, 2U);
    EXPECT_EQ(row.subjects[0].begin, 5U);
    EXPECT_EQ(row.subjects[1].begin, 7U);
  }
}

}  // namespace
}  // namespace sluice::api
