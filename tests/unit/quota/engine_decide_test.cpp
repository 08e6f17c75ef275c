// Goal:   a call is decided over all limits of all its subjects as one; a denial consumes nothing,
//         and reports every limit that it violates, and when to retry.
// Method: cases by hand with a virtual clock; limits of kind `fixed` where the kind is no matter.
#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Amounts;
using api::Ceiling;
using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

constexpr uint8_t wants_violated = api::quota_flag::wants_violated;
constexpr uint8_t wants_limits = api::quota_flag::wants_limits;

// ------------------------------------------------------------------------------ all or nothing

TEST(Reserve, charges_every_limit_of_every_subject) {
  StoreDriver driver;
  driver.put("{t}model", {rpm(10), tpm(1'000), slots(2)});
  driver.put("{t}tenant",
             {limit_of("out", Metric::output_tokens, 500), limit_of("cost", Metric::cost, 9'000)});
  const QuotaAnswer answer = driver.reserve(
      {"{t}model", "{t}tenant"},
      asking({.requests = 2, .input_tokens = 100, .output_tokens = 50, .cost = 700}));
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::open);
  EXPECT_NE(answer.reservation, 0U);
  EXPECT_EQ(answer.lifetime_ms, 60'000U);
  EXPECT_EQ(driver.used("{t}model", "rpm"), 2U);
  EXPECT_EQ(driver.used("{t}model", "tpm"), 150U);
  EXPECT_EQ(driver.used("{t}model", "slots"), 1U);
  EXPECT_EQ(driver.used("{t}tenant", "out"), 50U);
  EXPECT_EQ(driver.used("{t}tenant", "cost"), 700U);
  EXPECT_EQ(driver.limit("{t}model", "tpm").reserved, 150U);
}

TEST(Reserve, a_denial_by_the_last_subject_charges_none) {
  StoreDriver driver;
  driver.put("{t}a", {rpm(10), slots(5)});
  driver.put("{t}b", {tpm(1'000)});
  driver.put("{t}c", {rpm(10), tpm(100)});
  const QuotaAnswer answer = driver.reserve({"{t}a", "{t}b", "{t}c"}, asking_tokens(101));
  EXPECT_FALSE(api::admits(answer.code));
  EXPECT_EQ(answer.reservation, 0U);
  for (const char* name : {"{t}a", "{t}b", "{t}c"}) {
    const api::SubjectRow row = driver.row(name);
    EXPECT_EQ(row.open_reservations, 0U);
    for (uint32_t at = 0; at < row.limits_count; ++at) {
      EXPECT_EQ(driver.batch.limits[row.first_limit + at].used, 0U) << name;
    }
  }
  EXPECT_EQ(driver.store.reservations_count(), 0U);
}

TEST(Reserve, a_denial_where_all_limits_slide_charges_none) {
  const auto slide = [](uint64_t requests, uint64_t tokens) -> std::vector<api::Limit> {
    return {limit_of("rpm", Metric::requests, requests, LimitKind::sliding),
            limit_of("tpm", Metric::tokens, tokens, LimitKind::sliding)};
  };
  StoreDriver driver;
  for (const char* name : {"{t}a", "{t}b"}) driver.put(name, slide(10, 1'000));
  driver.put("{t}c", slide(10, 100));
  EXPECT_TRUE(api::admits(driver.reserve({"{t}a"}, asking_tokens(7)).code));
  EXPECT_FALSE(api::admits(driver.reserve({"{t}a", "{t}b", "{t}c"}, asking_tokens(101)).code));
  EXPECT_EQ(driver.used("{t}a", "rpm"), 1U);
  EXPECT_EQ(driver.used("{t}a", "tpm"), 7U);
  for (const char* name : {"{t}b", "{t}c"}) {
    EXPECT_EQ(driver.used(name, "rpm"), 0U) << name;
    EXPECT_EQ(driver.used(name, "tpm"), 0U) << name;
  }
  // Subjects of one quota share its limits.
  EXPECT_TRUE(api::admits(driver.reserve({"{t}b"}, asking_tokens(1'000)).code));
  EXPECT_FALSE(api::admits(driver.reserve({"{t}a", "{t}b"}, asking_tokens(7)).code));
  EXPECT_EQ(driver.used("{t}a", "rpm"), 1U);
  EXPECT_EQ(driver.used("{t}a", "tpm"), 7U);
  driver.store.check_invariants(driver.now());
}

TEST(Reserve, a_denial_for_want_of_a_slot_charges_no_request) {
  StoreDriver driver;
  driver.put("m", {rpm(10), slots(1)});
  driver.reserve({"m"}, asking_tokens(0));
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(0)).code, QuotaCode::concurrency_exceeded);
  EXPECT_EQ(driver.used("m", "rpm"), 1U);
}

TEST(Reserve, calls_of_one_batch_are_decided_in_their_order) {
  StoreDriver driver;
  driver.put("m", {rpm(20)});
  api::QuotaBatch batch;
  for (int call = 0; call < 40; ++call) {
    batch.calls.push_back(asking({.requests = 1}));
    batch.calls.back().subjects_count = 1;
    batch.calls.back().first_subject = static_cast<uint32_t>(call);
    batch.subjects.emplace_back("m");
  }
  batch.make_answers();
  driver.store.decide(batch, driver.now());
  for (size_t call = 0; call < 40; ++call) {
    EXPECT_EQ(api::admits(batch.answers[call].code), call < 20) << call;
  }
}

TEST(Reserve, leaves_calls_of_other_shards_alone) {
  StoreDriver driver;
  QuotaCall call = asking({.requests = 1});
  call.shard = 1;
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::none);
}

// --------------------------------------------------------------------------- what it reports

TEST(Denial, names_every_limit_that_is_violated) {
  StoreDriver driver;
  driver.put("{t}a", {rpm(1), tpm(100), rpd(1'000)});
  driver.put("{t}b", {slots(1), limit_of("cost", Metric::cost, 5)});
  driver.reserve({"{t}a", "{t}b"}, asking({.requests = 1, .input_tokens = 95, .cost = 5}));
  QuotaCall call = asking({.requests = 1, .input_tokens = 6, .cost = 1});
  call.flags = wants_violated;
  driver.reserve({"{t}a", "{t}b"}, call);
  EXPECT_EQ(driver.violated(), (Names{"{t}a.rpm", "{t}a.tpm", "{t}b.slots", "{t}b.cost"}));
  EXPECT_EQ(driver.batch.answers[0].limits_count, 4U);
  const api::LimitReport& report = driver.batch.limits[1];
  EXPECT_EQ(report.amount, 100U);
  EXPECT_EQ(report.used, 95U);
  EXPECT_EQ(report.reserved, 95U);
  EXPECT_EQ(report.remaining, 5U);
  EXPECT_EQ(report.reset_ms, 60'000);
}

TEST(Denial, reports_all_limits_when_all_are_wanted) {
  StoreDriver driver;
  driver.put("m", {rpm(1), tpm(100), rpd(1'000)});
  QuotaCall call = asking_tokens(101);
  call.flags = wants_limits;
  driver.reserve({"m"}, call);
  EXPECT_EQ(driver.batch.answers[0].limits_count, 3U);
  EXPECT_EQ(driver.violated(), Names{"m.tpm"});
}

TEST(Denial, has_the_code_that_comes_first_in_the_reference) {
  StoreDriver driver;
  driver.put("m", {tpm(10), rpm(1), rpd(1)});
  driver.record({"m"}, {.requests = 1, .input_tokens = 10});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::rpd_exceeded);
  driver.put("m", {tpm(10), rpm(1)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::rpm_exceeded);
  driver.put("m", {tpm(10), rpm(2)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
}

TEST(Denial, has_a_code_for_each_metric) {
  const auto code_of = [](const api::Limit& limit) {
    StoreDriver driver;
    driver.put("m", {limit});
    const Amounts all{.requests = 1, .input_tokens = 1, .output_tokens = 1, .cost = 1};
    driver.reserve({"m"}, asking(all));
    driver.record({"m"}, all);
    return driver.reserve({"m"}, asking(all)).code;
  };
  constexpr int64_t hour_ms = 3'600'000;
  EXPECT_EQ(code_of(rpd(1)), QuotaCode::rpd_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::requests, 1, LimitKind::sliding, 86'400'000)),
            QuotaCode::rpd_exceeded);
  EXPECT_EQ(code_of(rpm(1)), QuotaCode::rpm_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::requests, 1, LimitKind::fixed, hour_ms)),
            QuotaCode::requests_exceeded);
  EXPECT_EQ(code_of(tpm(2)), QuotaCode::tpm_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::tokens, 2, LimitKind::fixed, hour_ms)),
            QuotaCode::tokens_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::input_tokens, 1)), QuotaCode::input_tokens_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::output_tokens, 1)), QuotaCode::output_tokens_exceeded);
  EXPECT_EQ(code_of(limit_of("l", Metric::cost, 1)), QuotaCode::cost_exceeded);
  EXPECT_EQ(code_of(slots(1)), QuotaCode::concurrency_exceeded);
}

// The latest of all violated limits, and exact: a moment earlier it is denied, then admitted.
TEST(Denial, reports_when_to_retry_for_all_its_limits) {
  StoreDriver driver;
  driver.put("{t}a", {rpm(1)});
  driver.put("{t}b", {limit_of("slow", Metric::tokens, 10, LimitKind::fixed, 90'000)});
  driver.record({"{t}b"}, {.input_tokens = 10});
  driver.advance_ms(10'000);
  driver.record({"{t}a"}, {.requests = 1});
  const QuotaAnswer answer = driver.reserve({"{t}a", "{t}b"}, asking_tokens(10));
  EXPECT_EQ(answer.retry_after_ms, 80'000);
  driver.advance_ns(answer.retry_after_ms * base::ns_per_ms - 1);
  EXPECT_EQ(driver.reserve({"{t}a", "{t}b"}, asking_tokens(10)).retry_after_ms, 1);
  driver.advance_ns(1);
  EXPECT_EQ(driver.reserve({"{t}a", "{t}b"}, asking_tokens(10)).code, QuotaCode::ok);
}

TEST(Denial, of_gradual_kinds_reports_the_exact_moment) {
  for (const LimitKind kind : {LimitKind::sliding, LimitKind::gcra}) {
    SCOPED_TRACE(api::kind_name(kind));
    StoreDriver driver;
    driver.put("m", {limit_of("l", Metric::tokens, 100, kind, 15'000)});
    driver.record({"m"}, {.input_tokens = 40});
    driver.advance_ms(5'000);
    driver.record({"m"}, {.input_tokens = 80});
    const int64_t retry_after_ms = driver.reserve({"m"}, asking_tokens(60)).retry_after_ms;
    ASSERT_GT(retry_after_ms, 0);
    driver.advance_ms(retry_after_ms - 1);
    EXPECT_FALSE(api::admits(driver.check({"m"}, asking_tokens(60)).code));
    driver.advance_ms(1);
    EXPECT_TRUE(api::admits(driver.check({"m"}, asking_tokens(60)).code));
  }
}

// ----------------------------------------------------------------------------- words and numbers

TEST(Reserve, reports_an_amount_above_the_limit_as_such) {
  StoreDriver driver;
  driver.put("m", {tpm(100), rpm(5)});
  driver.record({"m"}, {.requests = 5});
  QuotaCall call = asking_tokens(101);
  call.flags = wants_violated;
  const QuotaAnswer answer = driver.reserve({"m"}, call);
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  EXPECT_EQ(driver.violated(), (Names{"m.tpm", "m.rpm"}));
}

TEST(Reserve, block_denies_everything_even_zero) {
  StoreDriver driver;
  driver.put("m", {with(tpm(0), Ceiling::block)});
  const QuotaAnswer answer = driver.reserve({"m"}, asking({.requests = 0}));
  EXPECT_EQ(answer.code, QuotaCode::blocked);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  driver.put("m", {with(slots(0), Ceiling::block), tpm(10)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(11)).code, QuotaCode::blocked);
}

TEST(Reserve, zero_is_a_number) {
  StoreDriver driver;
  driver.put("m", {tpm(0), rpm(5)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(0)).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::exceeds_limit);
  driver.put("c", {slots(0)});
  EXPECT_EQ(driver.reserve({"c"}, asking_tokens(0)).code, QuotaCode::exceeds_limit);
}

TEST(Reserve, unlimited_counts_and_reports_that_nothing_limits) {
  StoreDriver driver;
  driver.put("m", {with(tpm(0), Ceiling::unlimited), with(slots(0), Ceiling::unlimited)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(7)).code, QuotaCode::unlimited);
  EXPECT_EQ(driver.used("m", "tpm"), 7U);
  EXPECT_EQ(driver.used("m", "slots"), 1U);
  EXPECT_EQ(driver.limit("m", "tpm").remaining, limits::amount_max);
  driver.put("none", std::vector<api::Limit>{});
  EXPECT_EQ(driver.reserve({"none"}, asking_tokens(7)).code, QuotaCode::unlimited);
  driver.put("one", {with(tpm(0), Ceiling::unlimited), rpm(5)});
  EXPECT_EQ(driver.reserve({"one"}, asking_tokens(7)).code, QuotaCode::ok);
}

TEST(Reserve, amounts_have_64_bits) {
  StoreDriver driver;
  driver.put("m", {tpm(limits::amount_max)});
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(limits::amount_max - 1)).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver.used("m", "tpm"), limits::amount_max);
  // Both tokens together are more than any limit.
  const Amounts most{.input_tokens = limits::amount_max, .output_tokens = limits::amount_max};
  EXPECT_EQ(driver.reserve({"m"}, asking(most)).code, QuotaCode::exceeds_limit);
}

// ------------------------------------------------------------------------------ unknown subjects

TEST(UnknownSubjects, are_allowed_and_leave_nothing_behind) {
  StoreDriver driver;
  const QuotaAnswer answer = driver.reserve({"m"}, asking_tokens(999'999));
  EXPECT_EQ(answer.code, QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(driver.store.subjects_count(), 0U);
  EXPECT_EQ(driver.settle(answer.reservation, 5).code, QuotaCode::ok);
  EXPECT_EQ(driver.store.statistics().unknown_subjects, 1U);
}

TEST(UnknownSubjects, are_not_in_the_way_of_those_that_are_known) {
  StoreDriver driver;
  driver.put("{t}a", {tpm(10)});
  EXPECT_EQ(driver.reserve({"{t}x", "{t}a"}, asking_tokens(10)).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"{t}x", "{t}a"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
}

TEST(UnknownSubjects, are_denied_if_the_file_denies_them) {
  StoreDriver driver;
  policy::QuotaBook book({.rules = {}, .unknown = policy::UnknownSubjects::deny});
  driver.store.adopt(book, driver.now());
  driver.put("{t}a", {tpm(10)});
  const QuotaAnswer answer = driver.reserve({"{t}a", "{t}x"}, asking_tokens(1));
  EXPECT_EQ(answer.code, QuotaCode::unknown_subject);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  EXPECT_EQ(driver.used("{t}a", "tpm"), 0U);
  EXPECT_EQ(driver.check({"x"}, asking_tokens(1)).code, QuotaCode::unknown_subject);
  EXPECT_EQ(driver.record({"x"}, {}).code, QuotaCode::unknown_subject);
}

TEST(UnknownSubjects, have_the_default_quota_if_the_file_has_one) {
  StoreDriver driver;
  policy::QuotaBook book({.rules = {},
                          .unknown = policy::UnknownSubjects::use_quota,
                          .unknown_quota = quota_of({rpm(1)})});
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(driver.reserve({"x"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"x"}, asking_tokens(1)).code, QuotaCode::rpm_exceeded);
  EXPECT_EQ(driver.reserve({"y"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver.row("x").source, api::QuotaSource::file_default);
}

// --------------------------------------------------------------------------------- bad subjects

TEST(Subjects, must_be_one_to_eight_different_names_of_proper_length) {
  StoreDriver driver(
      {.subjects_max = 10, .reservations_max = 10, .waiters_max = 10, .name_bytes_max = 8});
  const auto code_of = [&driver](const Names& names) {
    const QuotaCode code = driver.reserve(names, asking_tokens(1)).code;
    EXPECT_EQ(driver.check(names, asking_tokens(1)).code, code);
    EXPECT_EQ(driver.record(names, {}).code, code);
    return code;
  };
  EXPECT_EQ(code_of({}), QuotaCode::invalid_subject);
  EXPECT_EQ(code_of({""}), QuotaCode::invalid_subject);
  EXPECT_EQ(code_of({"12345678"}), QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(code_of({"123456789"}), QuotaCode::invalid_subject);
  EXPECT_EQ(code_of({"{t}a", "{t}b", "{t}a"}), QuotaCode::invalid_subject);
  Names eight;
  for (const char letter : std::string("abcdefgh")) eight.push_back(std::string("{t}") + letter);
  EXPECT_EQ(code_of(eight), QuotaCode::unknown_subject_allowed);
  eight.emplace_back("{t}i");
  EXPECT_EQ(code_of(eight), QuotaCode::invalid_subject);
}

TEST(Subjects, may_have_any_names) {
  StoreDriver driver;
  driver.put("a", {tpm(10)});
  driver.put("b", {tpm(20)});
  const uint64_t id = driver.reserve({"a", "b"}, asking_tokens(10)).reservation;
  EXPECT_EQ(driver.used("a", "tpm"), 10U);
  EXPECT_EQ(driver.used("b", "tpm"), 10U);
  EXPECT_EQ(driver.reserve({"b", "a"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver.used("b", "tpm"), 10U);
  driver.settle(id, 3);
  driver.record({"b", "a"}, {.input_tokens = 2});
  EXPECT_EQ(driver.used("a", "tpm"), 5U);
  EXPECT_EQ(driver.check({"b", "a"}, asking_tokens(6)).code, QuotaCode::tpm_exceeded);
}

TEST(ClientId, names_the_same_subjects_in_any_order_once) {
  StoreDriver driver;
  const QuotaCall call = with_id(asking_tokens(1), "x");
  const uint64_t id = driver.reserve({"a", "b"}, call).reservation;
  EXPECT_EQ(driver.reserve({"a", "b"}, call).reservation, id);
  EXPECT_EQ(driver.reserve({"b", "a"}, call).code, QuotaCode::id_in_use);
  EXPECT_NE(driver.reserve({"a", "c"}, call).reservation, id);
}

// -------------------------------------------------------------------------------- the client's id

TEST(ClientId, a_repeat_gets_the_first_answer_while_it_is_open) {
  StoreDriver driver;
  driver.put("m", {tpm(10)});
  const QuotaCall call = with_id(asking_tokens(10), "id");
  const QuotaAnswer first = driver.reserve({"m"}, call);
  driver.advance_ms(20'000);
  const QuotaAnswer again = driver.reserve({"m"}, call);
  EXPECT_EQ(again.code, QuotaCode::ok);
  EXPECT_EQ(again.reservation, first.reservation);
  EXPECT_EQ(again.state, ReservationState::open);
  EXPECT_EQ(again.lifetime_ms, 40'000U);
  EXPECT_EQ(driver.used("m", "tpm"), 10U);
  EXPECT_EQ(driver.store.reservations_count(), 1U);
}

TEST(ClientId, a_repeat_after_the_lifetime_is_decided_anew) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  QuotaCall call = with_id(asking_tokens(60), "id");
  call.lifetime_ms = 1'000;
  const uint64_t first = driver.reserve({"m"}, call).reservation;
  driver.advance_ms(1'000);  // it expires, and is remembered for a late settle
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::tpm_exceeded);
  driver.settle(first, 10);
  EXPECT_NE(driver.reserve({"m"}, call).reservation, first);
}

TEST(ClientId, a_repeat_gets_the_first_answer_when_it_has_ended) {
  StoreDriver driver;
  driver.put("m", {tpm(100), slots(5)});
  const QuotaCall settled = with_id(asking_tokens(10), "s");
  const QuotaCall cancelled = with_id(asking_tokens(10), "c");
  const uint64_t first = driver.reserve({"m"}, settled).reservation;
  const uint64_t second = driver.reserve({"m"}, cancelled).reservation;
  driver.settle(first, 7);
  driver.cancel(second);
  EXPECT_EQ(driver.reserve({"m"}, settled).reservation, first);
  EXPECT_EQ(driver.batch.answers[0].state, ReservationState::settled);
  EXPECT_EQ(driver.reserve({"m"}, cancelled).reservation, second);
  EXPECT_EQ(driver.batch.answers[0].state, ReservationState::cancelled);
  EXPECT_EQ(driver.used("m", "tpm"), 7U);
  EXPECT_EQ(driver.used("m", "slots"), 0U);
}

TEST(ClientId, is_free_again_when_its_reservation_is_forgotten) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  const QuotaCall call = with_id(asking_tokens(10), "id");
  const uint64_t first = driver.reserve({"m"}, call).reservation;
  driver.settle(first, 10);
  driver.advance_ms(59'999);
  EXPECT_EQ(driver.reserve({"m"}, call).reservation, first);
  driver.advance_ms(1);
  const QuotaAnswer again = driver.reserve({"m"}, call);
  EXPECT_EQ(again.code, QuotaCode::ok);
  EXPECT_NE(again.reservation, first);
}

// A check is answered as the reserve would be.
TEST(ClientId, is_checked_by_check_too) {
  StoreDriver driver;
  driver.put("m", {slots(1)});
  const uint64_t held = driver.reserve({"m"}, with_id(asking({}), "id")).reservation;
  EXPECT_EQ(driver.check({"m"}, asking({})).code, QuotaCode::concurrency_exceeded);
  const api::QuotaAnswer again = driver.check({"m"}, with_id(asking({}), "id"));
  EXPECT_EQ(again.code, QuotaCode::ok);
  EXPECT_EQ(again.reservation, 0U);
  driver.cancel(held);
  EXPECT_EQ(driver.check({"m"}, asking({})).code, QuotaCode::ok);
  const api::QuotaAnswer other = driver.check({"m"}, with_id(asking({.requests = 2}), "id"));
  EXPECT_EQ(other.code, QuotaCode::id_in_use);
  EXPECT_EQ(other.retry_after_ms, api::retry_never);
}

TEST(ClientId, of_another_request_is_in_use) {
  StoreDriver driver;
  driver.put("{t}a", {tpm(100)});
  driver.put("{t}b", {tpm(100)});
  driver.reserve({"{t}a"}, with_id(asking_tokens(10), "id"));
  EXPECT_EQ(driver.reserve({"{t}a"}, with_id(asking_tokens(11), "id")).code, QuotaCode::id_in_use);
  EXPECT_EQ(driver.reserve({"{t}b"}, with_id(asking_tokens(10), "id")).code, QuotaCode::id_in_use);
  EXPECT_EQ(driver.reserve({"{t}a", "{t}b"}, with_id(asking_tokens(10), "id")).code,
            QuotaCode::id_in_use);
  // For subjects with another tag it is another id.
  EXPECT_EQ(driver.reserve({"c"}, with_id(asking_tokens(10), "id")).code,
            QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(driver.used("{t}a", "tpm"), 10U);
  EXPECT_EQ(driver.used("{t}b", "tpm"), 0U);
}

TEST(ClientId, that_waits_is_in_use) {
  StoreDriver driver;
  driver.put("m", {tpm(10)});
  driver.record({"m"}, {.input_tokens = 10});
  const QuotaCall call = with_id(waiting(asking_tokens(10), 1), "id");
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::queued);
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::id_in_use);
  driver.advance_ms(60'000);
  EXPECT_EQ(driver.served(), std::vector<api::Ticket>{1});
  EXPECT_EQ(driver.reserve({"m"}, call).reservation, driver.granted);
}

TEST(ClientId, a_denial_is_decided_anew) {
  StoreDriver driver;
  driver.put("m", {tpm(10)});
  driver.record({"m"}, {.input_tokens = 5});
  const QuotaCall call = with_id(asking_tokens(10), "id");
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::tpm_exceeded);
  driver.advance_ms(60'000);
  EXPECT_EQ(driver.reserve({"m"}, call).code, QuotaCode::ok);
}

// ------------------------------------------------------------------------------ check and record

TEST(Check, answers_as_reserve_would_and_changes_nothing) {
  StoreDriver driver;
  driver.put("m", {tpm(10), slots(1)});
  EXPECT_EQ(driver.check({"m"}, asking_tokens(10)).code, QuotaCode::ok);
  EXPECT_EQ(driver.check({"m"}, asking_tokens(10)).reservation, 0U);
  EXPECT_EQ(driver.check({"m"}, asking_tokens(11)).code, QuotaCode::exceeds_limit);
  EXPECT_EQ(driver.used("m", "tpm"), 0U);
  driver.reserve({"m"}, asking_tokens(4));
  QuotaCall call = asking_tokens(7);
  call.flags = wants_violated;
  EXPECT_EQ(driver.check({"m"}, call).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver.violated(), (Names{"m.tpm", "m.slots"}));
}

TEST(Check, of_an_unused_subject_creates_none) {
  StoreDriver driver;
  policy::QuotaBook book(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({rpm(1), tpm(10)})}}});
  driver.store.adopt(book, driver.now());
  EXPECT_EQ(driver.check({"{t}a", "{t}b"}, asking_tokens(10)).code, QuotaCode::ok);
  EXPECT_EQ(driver.check({"{t}a", "{t}b"}, asking_tokens(11)).code, QuotaCode::exceeds_limit);
  EXPECT_EQ(driver.row("{t}a").limits_count, 2U);
  EXPECT_EQ(driver.store.subjects_count(), 0U);
}

TEST(Record, charges_without_asking) {
  StoreDriver driver;
  driver.put("m", {rpm(1), tpm(10)});
  EXPECT_EQ(driver.record({"m"}, {.requests = 3, .input_tokens = 20, .output_tokens = 5}).code,
            QuotaCode::ok);
  EXPECT_EQ(driver.used("m", "rpm"), 3U);
  EXPECT_EQ(driver.used("m", "tpm"), 25U);
  EXPECT_EQ(driver.limit("m", "tpm").remaining, 0U);
  EXPECT_EQ(driver.limit("m", "tpm").reserved, 0U);
  EXPECT_EQ(driver.store.reservations_count(), 0U);
}

TEST(Record, does_not_charge_cached_input_unless_the_limit_counts_it) {
  StoreDriver driver;
  api::Limit counted = limit_of("all", Metric::input_tokens, 1'000);
  counted.count_cached = true;
  driver.put("m", {tpm(1'000), counted});
  driver.record({"m"}, {.requests = 1, .input_tokens = 100, .output_tokens = 5}, 80);
  EXPECT_EQ(driver.used("m", "tpm"), 25U);
  EXPECT_EQ(driver.used("m", "all"), 100U);
}

// ------------------------------------------------------------------------------- default output

class DefaultOutput : public testing::Test {
 protected:
  DefaultOutput() { driver_.store.adopt(book_, driver_.now()); }
  // A call with 100 input tokens, and no output given.
  uint64_t reserved_of(std::vector<api::Limit> limits) {
    driver_.put("m", std::move(limits));
    QuotaCall call = asking({.requests = 1, .input_tokens = 100});
    call.given_bits = api::given::requests | api::given::input_tokens;
    const QuotaAnswer answer = driver_.reserve({"m"}, call);
    EXPECT_TRUE(api::admits(answer.code)) << api::code_name(answer.code);
    driver_.ask({.op = QuotaOp::show, .reservation = answer.reservation});
    return driver_.batch.answers[0].amounts.output_tokens;
  }
  policy::QuotaBook book_{{.rules = {}, .output_tokens = 4'096}};
  StoreDriver driver_;
};

TEST_F(DefaultOutput, is_reserved_when_none_is_given) {
  EXPECT_EQ(reserved_of({tpm(1'000'000)}), 4'096U);
}

TEST_F(DefaultOutput, is_capped_to_the_tightest_limit) {
  EXPECT_EQ(reserved_of({tpm(1'000), limit_of("out", Metric::output_tokens, 300)}), 300U);
}

TEST_F(DefaultOutput, leaves_room_for_the_input) {
  EXPECT_EQ(reserved_of({tpm(1'000)}), 900U);
}

TEST_F(DefaultOutput, is_not_capped_by_unlimited_limits) {
  EXPECT_EQ(reserved_of({with(tpm(0), Ceiling::unlimited)}), 4'096U);
}

TEST_F(DefaultOutput, is_none_where_zero_was_given) {
  driver_.put("m", {tpm(1'000)});
  driver_.reserve({"m"}, asking_tokens(100));
  EXPECT_EQ(driver_.used("m", "tpm"), 100U);
}

}  // namespace
}  // namespace sluice::quota
