// Goal:   a subject has the quota that comes first, keeps its usage when that changes, and is
//         forgotten when idle without granting anything twice.
// Method: cases by hand with a virtual clock; books with few rules.
#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::QuotaSource;

QuotaAnswer remove(StoreDriver& driver, const std::string& name) {
  return driver.op(QuotaOp::remove, {}, {name});
}

policy::QuotaRules file_rules() {
  return {.rules = {{.subject = "exact", .quota = quota_of({tpm(20)})},
                    {.subject = "^ex|^pat", .is_regex = true, .quota = quota_of({tpm(30)})},
                    {.subject = "gpt",
                     .is_regex = false,
                     .quota = quota_of({tpm(40)}),
                     .source = QuotaSource::profile}},
          .unknown = policy::UnknownSubjects::use_quota,
          .unknown_quota = quota_of({tpm(50)})};
}

// -------------------------------------------------------------------------------- where it is from

TEST(Subject, has_the_quota_that_comes_first) {
  StoreDriver driver;
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  const auto reported = [&driver](const std::string& name) {
    const api::SubjectRow row = driver.row(name);
    return std::pair(row.source, driver.batch.limits[row.first_limit].amount);
  };
  EXPECT_EQ(reported("exact"), std::pair(QuotaSource::file, uint64_t{20}));
  EXPECT_EQ(reported("extra"), std::pair(QuotaSource::file, uint64_t{30}));
  EXPECT_EQ(reported("gpt"), std::pair(QuotaSource::profile, uint64_t{40}));
  EXPECT_EQ(reported("other"), std::pair(QuotaSource::file_default, uint64_t{50}));
  driver.put("exact", {tpm(10)});
  EXPECT_EQ(reported("exact"), std::pair(QuotaSource::run_time, uint64_t{10}));
  EXPECT_EQ(remove(driver, "exact").code, QuotaCode::ok);
  EXPECT_EQ(reported("exact"), std::pair(QuotaSource::file, uint64_t{20}));
}

TEST(Subject, only_a_put_quota_can_be_removed) {
  StoreDriver driver;
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(remove(driver, "exact").code, QuotaCode::no_such_quota);
  EXPECT_EQ(remove(driver, "other").code, QuotaCode::no_such_quota);
  driver.put("other", {tpm(10)});
  EXPECT_EQ(remove(driver, "other").code, QuotaCode::ok);
  EXPECT_EQ(remove(driver, "other").code, QuotaCode::no_such_quota);
}

QuotaAnswer hand_over(StoreDriver& driver, const std::string& name, const Quota& quota) {
  return driver.ask({.op = QuotaOp::put, .flags = api::quota_flag::handed_over}, {name}, quota);
}

TEST(Subject, takes_a_quota_that_an_earlier_owner_hands_over) {
  StoreDriver driver;
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  for (const char* const name : {"exact", "new"}) {
    EXPECT_EQ(hand_over(driver, name, quota_of({tpm(10)})).code, QuotaCode::ok);
    EXPECT_TRUE(driver.batch.rows.empty()) << "nobody reads them";
    EXPECT_EQ(driver.row(name).source, QuotaSource::run_time);
    EXPECT_EQ(driver.limit(name, "tpm").amount, 10U);
  }
}

// It may have been put after the other node was stopped.
TEST(Subject, keeps_its_own_quota_when_an_earlier_owner_hands_one_over) {
  StoreDriver driver;
  driver.put("m", {tpm(70)});
  EXPECT_EQ(hand_over(driver, "m", quota_of({tpm(10)})).code, QuotaCode::ok);
  EXPECT_EQ(driver.limit("m", "tpm").amount, 70U);
}

// Another node has checked it, with the time zones of its own machine.
TEST(Subject, refuses_a_quota_whose_time_zone_is_missing_here) {
  StoreDriver driver;
  driver.put("m", {tpm(70)});
  api::Limit day = limit_of("rpd", Metric::requests, 5, LimitKind::calendar, 0);
  day.unit = api::CalendarUnit::day;
  day.time_zone = "Mars/Olympus";
  const Quota unknown = quota_of({tpm(10), day});
  EXPECT_EQ(driver.ask({.op = QuotaOp::put}, {"m"}, unknown).code, QuotaCode::invalid_quota);
  EXPECT_TRUE(driver.batch.rows.empty());
  EXPECT_EQ(driver.limit("m", "tpm").amount, 70U);
  EXPECT_EQ(hand_over(driver, "new", unknown).code, QuotaCode::invalid_quota);
  EXPECT_EQ(driver.row("new").source, QuotaSource::none);
  EXPECT_EQ(hand_over(driver, "m", unknown).code, QuotaCode::ok) << "the later one stays";
  day.time_zone = "Asia/Kathmandu";
  EXPECT_EQ(hand_over(driver, "new", quota_of({day})).code, QuotaCode::ok);
}

TEST(Subject, a_put_quota_stays_when_the_file_changes) {
  StoreDriver driver;
  driver.put("exact", {tpm(10)});
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(driver.row("exact").source, QuotaSource::run_time);
  EXPECT_EQ(driver.limit("exact", "tpm").amount, 10U);
}

TEST(Subject, follows_the_file_when_that_changes) {
  StoreDriver driver;
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  driver.record({"exact"}, {.input_tokens = 15});
  policy::QuotaRules rules = file_rules();
  rules.rules[0].quota = quota_of({tpm(16)});
  policy::QuotaBook tighter(rules);
  driver.store.adopt(tighter, driver.now());
  EXPECT_EQ(driver.reserve({"exact"}, asking_tokens(2)).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver.reserve({"exact"}, asking_tokens(1)).code, QuotaCode::ok);
  policy::QuotaBook none;
  driver.store.adopt(none, driver.now());
  EXPECT_EQ(driver.reserve({"exact"}, asking_tokens(999)).code, QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(driver.row("exact").source, QuotaSource::none);
}

TEST(Subject, that_the_file_names_is_there_before_any_call) {
  StoreDriver driver;
  policy::QuotaBook book(file_rules());
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(driver.store.subjects_count(), 2U);  // patterns name no subject
  for (int call = 0; call < 10; ++call) driver.check({"x"}, asking_tokens(1));
  EXPECT_EQ(driver.store.subjects_count(), 2U);
}

TEST(Subject, of_another_shard_is_not_made_for_the_file) {
  uint32_t subjects = 0;
  for (uint32_t shard = 0; shard < 4; ++shard) {
    StoreDriver driver({.shard = shard,
                        .shards = 4,
                        .subjects_max = 100,
                        .reservations_max = 10,
                        .waiters_max = 10});
    policy::QuotaRules rules;
    for (int name = 0; name < 40; ++name) {
      rules.rules.push_back({.subject = numbered("s", name), .quota = quota_of({rpm(1)})});
    }
    policy::QuotaBook book(rules);
    driver.store.adopt(book, driver.now());
    EXPECT_LT(driver.store.subjects_count(), 40U);
    subjects += driver.store.subjects_count();
  }
  EXPECT_EQ(subjects, 40U);
}

// -------------------------------------------------------------------------------- another quota

TEST(NewQuota, holds_at_once_and_keeps_what_was_used) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  const uint64_t id = driver.reserve({"m"}, asking_tokens(60)).reservation;
  driver.put("m", {rpm(5), tpm(50)});
  EXPECT_EQ(driver.used("m", "tpm"), 60U);
  EXPECT_EQ(driver.limit("m", "tpm").reserved, 60U);
  EXPECT_EQ(driver.used("m", "rpm"), 0U);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(0)).code, QuotaCode::tpm_exceeded);
  driver.settle(id, 10);
  EXPECT_EQ(driver.used("m", "tpm"), 10U);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(40)).code, QuotaCode::ok);
}

TEST(NewQuota, of_another_kind_begins_with_nothing_used) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  const uint64_t id = driver.reserve({"m"}, asking_tokens(60)).reservation;
  driver.put("m", {limit_of("tpm", Metric::tokens, 100, LimitKind::gcra)});
  driver.record({"m"}, {.input_tokens = 30});
  driver.settle(id, 0);  // it was not charged here
  EXPECT_EQ(driver.used("m", "tpm"), 30U);
}

TEST(NewQuota, is_reported_with_its_usage) {
  StoreDriver driver;
  const Quota quota = quota_of({tpm(100), slots(2)});
  const QuotaAnswer answer = driver.ask({.op = QuotaOp::put}, {"m"}, quota);
  ASSERT_EQ(answer.rows_count, 1U);
  const api::SubjectRow& row = driver.batch.rows[answer.first_row];
  EXPECT_EQ(driver.batch.name_of(row), "m");
  EXPECT_EQ(row.source, QuotaSource::run_time);
  EXPECT_EQ(driver.batch.quotas[row.quota], quota);
  EXPECT_EQ(row.limits_count, 2U);
}

TEST(NewQuota, of_a_subject_that_cannot_be_is_refused) {
  StoreDriver driver;
  for (const QuotaOp op : {QuotaOp::put, QuotaOp::remove, QuotaOp::reset}) {
    EXPECT_EQ(driver.op(op, {}, {}).code, QuotaCode::invalid_subject);
    EXPECT_EQ(driver.op(op, {}, {""}).code, QuotaCode::invalid_subject);
    EXPECT_EQ(driver.op(op, {}, {"{t}a", "{t}b"}).code, QuotaCode::invalid_subject);
  }
  EXPECT_EQ(driver.store.subjects_count(), 0U);
}

Quota many_of(LimitKind kind, int count) {
  Quota quota = quota_of({});
  for (int limit = 0; limit < count; ++limit) {
    quota.limits.push_back(limit_of(numbered("l", limit), Metric::tokens, 9, kind));
  }
  return quota;
}

TEST(NewQuota, takes_the_room_of_the_one_before_however_often) {
  StoreDriver driver;
  // Many first words and few rings, and the other way round.
  const Quota many_windows = many_of(LimitKind::fixed, 16);
  const Quota large_rings = many_of(LimitKind::rolling_day, 16);
  const Quota slides = many_of(LimitKind::sliding, 2);
  for (int turn = 0; turn < 3'000; ++turn) {
    for (const Quota& quota : {large_rings, many_windows, slides, quota_of({slots(3)})}) {
      ASSERT_EQ(driver.ask_unchecked({.op = QuotaOp::put}, {"m"}, quota).code, QuotaCode::ok)
          << turn;
    }
  }
  driver.store.check_invariants(driver.now());
}

TEST(NewQuota, of_any_size_finds_room_for_every_subject_whatever_was_there_before) {
  constexpr int subjects = 1'500;
  StoreDriver full({.subjects_max = subjects, .reservations_max = 10, .waiters_max = 10});
  for (const LimitKind kind : {LimitKind::sliding, LimitKind::rolling_day, LimitKind::gcra}) {
    for (const int limits : {1, 8, 12, 3, 16}) {
      for (int subject = 0; subject < subjects; ++subject) {
        const QuotaAnswer answer = full.ask_unchecked(
            {.op = QuotaOp::put}, {numbered("s", subject)}, many_of(kind, limits));
        ASSERT_EQ(answer.code, QuotaCode::ok) << subject << " with " << limits;
      }
    }
  }
  full.store.check_invariants(full.now());
}

TEST(NewQuota, of_the_file_holds_for_every_subject_of_a_full_store) {
  constexpr int subjects = 1'500;
  StoreDriver full({.subjects_max = subjects, .reservations_max = 10, .waiters_max = 10});
  const auto all_of = [](int limits) {
    return policy::QuotaRules{.unknown = policy::UnknownSubjects::use_quota,
                              .unknown_quota = many_of(LimitKind::sliding, limits)};
  };
  policy::QuotaBook eight(all_of(8));
  policy::QuotaBook twelve(all_of(12));
  for (policy::QuotaBook* const book : {&eight, &twelve}) {
    full.store.adopt(*book, full.now());
    for (int subject = 0; subject < subjects; ++subject) {
      full.ask_unchecked({.op = QuotaOp::record, .amounts = {.input_tokens = 1}},
                         {numbered("s", subject)});
    }
  }
  for (int subject = 0; subject < subjects; subject += 7) {
    const std::string name = numbered("s", subject);
    ASSERT_EQ(full.row(name).limits_count, 12U) << name;
    ASSERT_EQ(full.used(name, "l7"), 2U) << name;
    ASSERT_EQ(full.used(name, "l8"), 1U) << "new, in words that were another's";
  }
}

// ---------------------------------------------------------------------------------------- reset

TEST(Reset, forgets_what_was_used_and_keeps_what_is_open) {
  StoreDriver driver;
  driver.put("m", {rpm(10), tpm(100), slots(3)});
  driver.put("n", {tpm(100)});
  driver.record({"m"}, {.requests = 5, .input_tokens = 40});
  driver.record({"n"}, {.input_tokens = 40});
  const uint64_t id = driver.reserve({"m"}, asking_tokens(30)).reservation;
  EXPECT_EQ(driver.reset("m").code, QuotaCode::ok);
  EXPECT_EQ(driver.used("m", "rpm"), 1U);
  EXPECT_EQ(driver.used("m", "tpm"), 30U);
  EXPECT_EQ(driver.used("m", "slots"), 1U);
  EXPECT_EQ(driver.used("n", "tpm"), 40U);
  EXPECT_EQ(driver.settle(id, 20).code, QuotaCode::ok);
  EXPECT_EQ(driver.used("m", "tpm"), 20U);
  EXPECT_EQ(driver.used("m", "slots"), 0U);
}

TEST(Reset, of_all_keeps_what_is_open_of_each) {
  StoreDriver driver;
  for (const char* name : {"m", "n"}) {
    driver.put(name, {tpm(100), slots(3)});
    driver.record({name}, {.input_tokens = 40});
    driver.reserve({name}, asking_tokens(30));
  }
  EXPECT_EQ(driver.ask({.op = QuotaOp::reset_all}).code, QuotaCode::ok);
  for (const char* name : {"m", "n"}) {
    EXPECT_EQ(driver.used(name, "tpm"), 30U);
    EXPECT_EQ(driver.used(name, "slots"), 1U);
  }
  driver.record({"m"}, {.input_tokens = 5});
  EXPECT_EQ(driver.used("m", "tpm"), 35U);
}

TEST(Reset, of_an_absent_subject_changes_nothing) {
  StoreDriver driver;
  EXPECT_EQ(driver.reset("m").code, QuotaCode::ok);
  EXPECT_EQ(driver.store.subjects_count(), 0U);
}

TEST(Reset, forgets_the_charge_of_an_expired_one_for_good) {
  StoreDriver driver;
  driver.put("m", {limit_of("l", Metric::tokens, 100, LimitKind::fixed, 3'600'000)});
  const uint64_t id = driver.reserve({"m"}, asking_tokens(60)).reservation;
  driver.advance_ms(60'000);
  driver.reset("m");
  driver.record({"m"}, {.input_tokens = 50});
  driver.settle(id, 0);
  EXPECT_EQ(driver.used("m", "l"), 50U);
}

// ------------------------------------------------------------------------------------ forgetting

constexpr Options small{.subjects_max = 4, .reservations_max = 100, .waiters_max = 10};

TEST(IdleSubject, is_forgotten_when_nothing_of_it_is_used) {
  StoreDriver driver(small);
  policy::QuotaBook book(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({tpm(10)})}}});
  driver.store.adopt(book, driver.now());
  for (int name = 0; name < 4; ++name) {
    driver.record({numbered("s", name)}, {.input_tokens = 10});
  }
  EXPECT_EQ(driver.store.subjects_count(), 4U);
  const QuotaAnswer full = driver.record({"s4"}, {.input_tokens = 10});
  EXPECT_EQ(full.code, QuotaCode::subjects_full);
  EXPECT_EQ(full.retry_after_ms, 1'000);
  driver.advance_ms(59'999);
  EXPECT_EQ(driver.reserve({"s4"}, asking_tokens(10)).code, QuotaCode::subjects_full);
  driver.advance_ms(1);
  EXPECT_EQ(driver.reserve({"s4"}, asking_tokens(10)).code, QuotaCode::ok);
  // A slice with every batch.
  for (int batch = 0; batch < 10; ++batch) driver.check({"x"}, asking_tokens(1));
  EXPECT_EQ(driver.store.subjects_count(), 1U);
  EXPECT_EQ(driver.store.statistics().subjects_forgotten, 4U);
}

TEST(IdleSubject, is_kept_while_a_reservation_or_the_memory_of_one_names_it) {
  StoreDriver driver(small);
  policy::QuotaBook book(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({slots(1)})}}});
  driver.store.adopt(book, driver.now());
  // With a client's id a repeat still reports its subjects.
  const uint64_t id = driver.reserve({"s"}, with_id(asking_tokens(0), "id")).reservation;
  driver.settle(id, 0);
  const auto count = [&driver] {
    for (int batch = 0; batch < 10; ++batch) driver.check({"x"}, asking_tokens(1));
    return driver.store.subjects_count();
  };
  EXPECT_EQ(count(), 1U);
  driver.advance_ms(60'000);
  EXPECT_EQ(count(), 0U);
}

TEST(IdleSubject, that_was_put_or_is_in_the_file_stays) {
  StoreDriver driver(small);
  policy::QuotaBook book({.rules = {{.subject = "f", .quota = quota_of({tpm(10)})}}});
  driver.store.adopt(book, driver.now());
  driver.put("p", {tpm(10)});
  for (int batch = 0; batch < 20; ++batch) driver.check({"x"}, asking_tokens(1));
  EXPECT_EQ(driver.store.subjects_count(), 2U);
  remove(driver, "p");
  EXPECT_EQ(driver.store.subjects_count(), 1U);
  EXPECT_EQ(driver.store.statistics().subjects_forgotten, 1U);
}

// The first subject of a call is idle until the call is decided: the second does not take its
// place.
TEST(IdleSubject, does_not_make_room_for_another_one_of_the_same_call) {
  StoreDriver driver({.subjects_max = 1, .reservations_max = 10, .waiters_max = 10});
  policy::QuotaBook book(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({tpm(10)})}}});
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(driver.reserve({"{t}a", "{t}b"}, asking_tokens(6)).code, QuotaCode::subjects_full);
  EXPECT_EQ(driver.record({"{t}a", "{t}b"}, {.input_tokens = 6}).code, QuotaCode::subjects_full);
  EXPECT_EQ(driver.reserve({"{t}b"}, asking_tokens(10)).code, QuotaCode::ok);
}

}  // namespace
}  // namespace sluice::quota
