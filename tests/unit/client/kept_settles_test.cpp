// Goal: a kept settle is repeated until the server took it or its lifetime ended, is counted once,
// and the book keeps to its bound. Method: the book alone, with times as arguments.
#include "clients/cpp/src/kept_settles.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluicegate {
namespace {

using namespace std::chrono_literals;

using Time = KeptSettles::Clock::time_point;
using Stage = KeptSettle::Stage;

constexpr Time start{std::chrono::hours{1}};
constexpr Time never = Time::max();
constexpr auto longest_pause = 400ms;
constexpr std::chrono::milliseconds long_pause{3'600'000};

KeptSettles book_of(size_t kept_max = 100) {
  return {kept_max, Backoff{{.backoff_first = 100ms, .backoff_longest = longest_pause}, 1}};
}

KeptSettle settle_of(uint64_t reservation, Time ends = start + 1min) {
  return {.reservation = reservation, .used = {.output_tokens = 7}, .ends = ends};
}

// As the guard of a reservation has it.
KeptSettle guarded(uint64_t reservation) {
  KeptSettle settle = settle_of(reservation);
  settle.reserved = std::make_shared<const ReservedCall>(ReservedCall::of(
      {"gpt-4o", "acme"}, {.requests = 2, .input_tokens = 900, .max_output_tokens = 500}, start));
  return settle;
}

SettleCounts counted(uint64_t kept, uint64_t settled, uint64_t recorded, uint64_t lost) {
  return {.kept = kept, .settled = settled, .recorded = recorded, .lost = lost};
}

// The only one that is due.
KeptSettle take_one(KeptSettles& book, Time now) {
  auto due = book.take_due(now);
  EXPECT_EQ(due.size(), 1u);
  return due.empty() ? KeptSettle{} : std::move(due.front());
}

TEST(KeptSettles, an_empty_book_has_nothing_due) {
  KeptSettles book = book_of();
  EXPECT_EQ(book.due(), never);
  EXPECT_TRUE(book.take_due(start).empty());
  EXPECT_EQ(book.counts(), counted(0, 0, 0, 0));
}

TEST(KeptSettles, a_fresh_settle_is_due_at_once) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_fresh(settle_of(7)));
  EXPECT_LE(book.due(), start);
  const KeptSettle taken = take_one(book, start);
  EXPECT_EQ(taken.reservation, 7u);
  EXPECT_EQ(taken.used.output_tokens, 7u);
  EXPECT_EQ(book.due(), never);  // it is under way
  EXPECT_EQ(book.counts(), counted(1, 0, 0, 0));
  book.answered(taken, QuotaCode::ok, start);
  EXPECT_EQ(book.counts(), counted(0, 1, 0, 0));
}

TEST(KeptSettles, one_that_failed_waits_for_its_pause) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_failed(settle_of(7), start));
  EXPECT_GE(book.due(), start + 50ms);
  EXPECT_LE(book.due(), start + 100ms);
  EXPECT_TRUE(book.take_due(start + 49ms).empty());
  EXPECT_EQ(take_one(book, book.due()).reservation, 7u);
}

// Callers that fail during an outage make one attempt together, not one each.
TEST(KeptSettles, those_that_failed_wait_for_one_attempt) {
  KeptSettles book = book_of();
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(book.add_failed(settle_of(i), start + i * 1ms));
  const Time due = book.due();
  EXPECT_LE(due, start + 100ms);
  EXPECT_EQ(book.take_due(due).size(), 10u);
}

TEST(KeptSettles, the_pause_doubles_up_to_the_longest) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_failed(settle_of(7), start));
  Time now = start;
  for (const auto longest : {100ms, 200ms, 400ms, 400ms}) {
    const auto pause = book.due() - now;
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    now = book.due();
    book.unanswered(std::vector{take_one(book, now)}, now);
  }
}

TEST(KeptSettles, an_answer_to_a_repeat_shortens_the_next_pause) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_failed(settle_of(7), start));
  EXPECT_TRUE(book.add_failed(settle_of(8), start));
  Time now = start;
  for (int i = 0; i < 4; ++i) {
    now = book.due();
    book.unanswered(book.take_due(now), now);
  }
  now = book.due();
  const auto due = book.take_due(now);
  ASSERT_EQ(due.size(), 2u);
  book.answered(due[0], QuotaCode::ok, now);
  book.answered(due[1], QuotaCode::owner_unreachable, now);
  EXPECT_LE(book.due(), now + 100ms);
}

TEST(KeptSettles, each_ending_code_ends_it) {
  struct Case {
    QuotaCode code;
    SettleCounts expected;
  };
  for (const Case& each : {Case{QuotaCode::ok, counted(0, 1, 0, 0)},
                           Case{QuotaCode::already_settled, counted(0, 1, 0, 0)},
                           Case{QuotaCode::already_cancelled, counted(0, 0, 0, 1)},
                           Case{QuotaCode::already_expired, counted(0, 0, 0, 1)},
                           Case{QuotaCode::unknown_reservation, counted(0, 0, 0, 1)},
                           Case{QuotaCode::owner_unreachable, counted(1, 0, 0, 0)},
                           Case{QuotaCode::draining, counted(1, 0, 0, 0)}}) {
    KeptSettles book = book_of();
    EXPECT_TRUE(book.add_fresh(settle_of(7)));
    book.answered(take_one(book, start), each.code, start);
    EXPECT_EQ(book.counts(), each.expected) << name(each.code);
  }
}

TEST(KeptSettles, a_forgotten_reservation_is_recorded_under_its_id) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_fresh(guarded(0x1'189A'BCDE'F012)));
  book.answered(take_one(book, start), QuotaCode::unknown_reservation, start);
  EXPECT_LE(book.due(), start);  // no pause: the server has answered
  const KeptSettle record = take_one(book, start);
  EXPECT_EQ(record.stage, Stage::record);
  EXPECT_EQ(record.record_id(), "settle-0001189abcdef012");
  const Used used = record.recorded();
  EXPECT_EQ(used.requests, 2u);
  EXPECT_EQ(used.input_tokens, 900u);
  EXPECT_EQ(used.output_tokens, 7u);
  EXPECT_EQ(used.cost, 0u);
  book.answered(record, QuotaCode::reservations_full, start);  // only a lack of room
  EXPECT_EQ(book.counts(), counted(1, 0, 0, 0));
  book.answered(take_one(book, book.due()), QuotaCode::ok, start);
  EXPECT_EQ(book.counts(), counted(0, 0, 1, 0));
}

constexpr uint64_t first_start = 11, later_start = 12;

KeptSettle guarded_by(uint64_t instance_id) {
  KeptSettle settle = guarded(7);
  settle.instance_id = instance_id;
  return settle;
}

// It ended by the attempt whose answer was lost: a record would charge it again.
TEST(KeptSettles, one_that_the_same_start_of_the_server_has_forgotten_is_settled) {
  for (const QuotaCode lost : {QuotaCode::none, QuotaCode::owner_unreachable}) {
    KeptSettles book = book_of();
    EXPECT_TRUE(book.add_fresh(guarded_by(first_start)));
    const KeptSettle sent = take_one(book, start);
    if (lost == QuotaCode::none) {
      book.unanswered({&sent, 1}, start);
    } else {
      book.answered(sent, lost, start, first_start);
    }
    const Time now = book.due();
    book.answered(take_one(book, now), QuotaCode::unknown_reservation, now, first_start);
    EXPECT_EQ(book.counts(), counted(0, 1, 0, 0));
    EXPECT_EQ(book.due(), never);
  }
}

TEST(KeptSettles, one_that_failed_as_a_call_may_be_taken_too) {
  for (const bool may_be_taken : {true, false}) {
    KeptSettles book = book_of();
    KeptSettle settle = guarded_by(first_start);
    settle.may_be_taken = may_be_taken;
    EXPECT_TRUE(book.add_failed(std::move(settle), start));
    const Time now = book.due();
    book.answered(take_one(book, now), QuotaCode::unknown_reservation, now, first_start);
    EXPECT_EQ(book.counts(), counted(0, may_be_taken ? 1 : 0, 0, may_be_taken ? 0 : 1));
  }
}

// It came too late: the reservation has ended without it, and is charged as that says.
TEST(KeptSettles, one_that_was_never_sent_is_lost_if_the_same_start_has_forgotten_it) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_fresh(guarded_by(first_start)));
  const KeptSettle unsent = take_one(book, start);
  book.unsent({&unsent, 1}, start);
  EXPECT_EQ(book.counts(), counted(1, 0, 0, 0));
  const Time now = book.due();
  book.answered(take_one(book, now), QuotaCode::unknown_reservation, now, first_start);
  EXPECT_EQ(book.counts(), counted(0, 0, 0, 1));
}

TEST(KeptSettles, one_that_another_start_has_forgotten_is_recorded) {
  struct Starts {
    uint64_t reserved, answering;
  };
  for (const auto& [reserved, answering] :
       {Starts{first_start, later_start}, Starts{0, later_start}, Starts{first_start, 0},
        Starts{0, 0}}) {
    KeptSettles book = book_of();
    EXPECT_TRUE(book.add_fresh(guarded_by(reserved)));
    const KeptSettle sent = take_one(book, start);
    book.unanswered({&sent, 1}, start);
    const Time now = book.due();
    book.answered(take_one(book, now), QuotaCode::unknown_reservation, now, answering);
    const KeptSettle record = take_one(book, now);
    EXPECT_EQ(record.stage, Stage::record);
    book.answered(record, QuotaCode::ok, now, answering);
    EXPECT_EQ(book.counts(), counted(0, 0, 1, 0));
  }
}

TEST(KeptSettles, a_record_has_what_the_settle_gives_and_else_the_reserve) {
  KeptSettle settle = guarded(7);
  settle.used = {.requests = 3, .output_tokens = 1, .cost = 9, .cached_input_tokens = 950};
  const Used used = settle.recorded();
  EXPECT_EQ(used.requests, 3u);
  EXPECT_EQ(used.input_tokens, 900u);
  EXPECT_EQ(used.cached_input_tokens, 900u);  // a part of the input
  EXPECT_EQ(used.cost, 9u);
}

TEST(KeptSettles, output_tokens_that_nobody_gave_are_not_recorded) {
  KeptSettle settle{.reservation = 7};
  settle.reserved = std::make_shared<const ReservedCall>(ReservedCall::of("gpt-4o", {}, start));
  EXPECT_EQ(settle.recorded().output_tokens, 0u);
}

TEST(KeptSettles, a_record_that_is_refused_for_good_is_lost) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_fresh(guarded(7)));
  book.answered(take_one(book, start), QuotaCode::unknown_reservation, start);
  book.answered(take_one(book, start), QuotaCode::id_in_use, start);
  EXPECT_EQ(book.counts(), counted(0, 0, 0, 1));
}

TEST(KeptSettles, one_whose_lifetime_has_ended_is_lost) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_failed(settle_of(7, start + 1s), start));
  Time now = book.due();
  book.unanswered(std::vector{take_one(book, now)}, now);
  while (book.counts().kept > 0) {
    EXPECT_LT(now, start + 1s);
    now = book.due();
    const auto due = book.take_due(now);
    if (!due.empty()) book.unanswered(due, now);
  }
  EXPECT_EQ(now, start + 1s);  // not at the attempt after that
  EXPECT_EQ(book.counts(), counted(0, 0, 0, 1));
  EXPECT_EQ(book.due(), never);
}

// Each sweep visits all that wait, and there may be many with lifetimes of their own.
TEST(KeptSettles, lifetimes_that_end_soon_after_each_other_end_together) {
  KeptSettles book = {100,
                      Backoff{{.backoff_first = long_pause, .backoff_longest = long_pause}, 1}};
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(book.add_fresh(settle_of(i, start + 5s + i * 50ms)));
  }
  book.unanswered(book.take_due(start), start);
  EXPECT_EQ(book.due(), start + 5s);
  EXPECT_TRUE(book.take_due(start + 5s).empty());
  EXPECT_EQ(book.counts(), counted(9, 0, 0, 1));
  EXPECT_EQ(book.due(), start + 6s);
  EXPECT_TRUE(book.take_due(start + 6s).empty());
  EXPECT_EQ(book.counts(), counted(0, 0, 0, 10));
}

// A settle that comes late still corrects the charge, so it is sent once at least.
TEST(KeptSettles, no_lifetime_ends_before_the_first_attempt) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_fresh(settle_of(7, start - 1s)));
  EXPECT_TRUE(book.add_failed(settle_of(8, start - 1s), start));
  const auto due = book.take_due(book.due() + 1h);
  EXPECT_EQ(due.size(), 1u);
  EXPECT_EQ(book.take_due(start + 100ms).size(), 1u);
}

TEST(KeptSettles, the_end_of_another_drops_none_before_its_first_attempt) {
  KeptSettles book = book_of();
  EXPECT_TRUE(book.add_failed(settle_of(7, start + 110ms), start));
  const Time now = book.due();
  book.unanswered(std::vector{take_one(book, now)}, now);
  EXPECT_TRUE(book.add_failed(settle_of(8, start + 1ms), now));
  const auto end = start + 110ms;
  ASSERT_EQ(book.due(), end);
  EXPECT_TRUE(book.take_due(end).empty());
  EXPECT_EQ(book.counts(), counted(1, 0, 0, 1));
}

TEST(KeptSettles, keeps_to_its_bound) {
  KeptSettles book = book_of(3);
  EXPECT_TRUE(book.add_fresh(settle_of(1)));
  EXPECT_TRUE(book.add_failed(settle_of(2), start));
  const KeptSettle under_way = take_one(book, start);
  EXPECT_TRUE(book.add_fresh(settle_of(3)));
  EXPECT_FALSE(book.add_fresh(settle_of(4)));
  EXPECT_FALSE(book.add_failed(settle_of(4), start));
  EXPECT_EQ(book.counts(), counted(3, 0, 0, 0));
  book.answered(under_way, QuotaCode::ok, start);
  EXPECT_TRUE(book.add_fresh(settle_of(4)));
  EXPECT_EQ(book.counts(), counted(3, 1, 0, 0));
}

// One of many may be at fault, and the others must not suffer.
TEST(KeptSettles, a_refused_frame_is_tried_one_by_one) {
  KeptSettles book = book_of();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(book.add_fresh(settle_of(i)));
  book.refused(book.take_due(start), start);
  EXPECT_EQ(book.counts(), counted(3, 0, 0, 0));
  const Time now = book.due();
  const auto due = book.take_due(now);
  ASSERT_EQ(due.size(), 3u);
  for (const KeptSettle& each : due) EXPECT_TRUE(each.is_alone);
  book.refused({&due[0], 1}, now);
  book.answered(due[1], QuotaCode::ok, now);
  book.answered(due[2], QuotaCode::ok, now);
  EXPECT_EQ(book.counts(), counted(0, 2, 0, 1));
}

TEST(KeptSettles, hurry_makes_the_next_attempt_due) {
  KeptSettles book = book_of();
  book.hurry();
  EXPECT_EQ(book.due(), never);
  EXPECT_TRUE(book.add_failed(settle_of(7), start));
  book.hurry();
  EXPECT_EQ(take_one(book, start).reservation, 7u);
}

TEST(KeptSettles, a_closed_book_loses_what_it_has) {
  KeptSettles book = book_of();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(book.add_fresh(guarded(i + 1)));
  const auto due = book.take_due(start);
  EXPECT_TRUE(book.add_failed(settle_of(8), start));
  EXPECT_TRUE(book.add_fresh(settle_of(9)));
  book.close();
  EXPECT_EQ(book.counts(), counted(3, 0, 0, 2));
  EXPECT_FALSE(book.add_fresh(settle_of(10)));
  book.unanswered({&due[0], 1}, start);
  book.answered(due[1], QuotaCode::unknown_reservation, start);
  book.answered(due[2], QuotaCode::ok, start);
  EXPECT_EQ(book.counts(), counted(0, 1, 0, 4));
  EXPECT_EQ(book.due(), never);
}

}  // namespace
}  // namespace sluicegate
