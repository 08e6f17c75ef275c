// Goal:   every bound of the store has its answer, and a full store makes room where nothing is
//         lost.
// Method: stores of a few places each.
#include "quota/quota_store.hpp"

#include <gtest/gtest.h>

#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;

constexpr Options small{.subjects_max = 3, .reservations_max = 2, .waiters_max = 2};

TEST(QuotaStore, without_places_for_subjects_answers_subjects_full) {
  StoreDriver driver(small);
  for (int name = 0; name < 3; ++name) driver.put(numbered("s", name), {rpm(5)});
  const QuotaAnswer put = driver.ask({.op = QuotaOp::put}, {"s3"}, quota_of({rpm(5)}));
  EXPECT_EQ(put.code, QuotaCode::subjects_full);
  EXPECT_EQ(put.retry_after_ms, 1'000);
  EXPECT_EQ(driver.store.subjects_count(), 3U);
  EXPECT_EQ(driver.ask({.op = QuotaOp::put}, {"s2"}, quota_of({rpm(6)})).code, QuotaCode::ok);
}

TEST(QuotaStore, without_places_for_reservations_answers_reservations_full) {
  StoreDriver driver(small);
  driver.put("m", {tpm(100), slots(10)});
  driver.reserve({"m"}, asking_tokens(10));
  driver.reserve({"m"}, asking_tokens(10));
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(10)).code, QuotaCode::reservations_full);
  EXPECT_EQ(driver.used("m", "tpm"), 20U);
  EXPECT_EQ(driver.used("m", "slots"), 2U);
  EXPECT_EQ(driver.store.reservations_count(), 2U);
}

TEST(QuotaStore, an_ended_reservation_with_an_id_of_its_clients_makes_room) {
  StoreDriver driver(small);
  driver.put("m", {tpm(100)});
  const uint64_t first = driver.reserve({"m"}, asking_tokens(10)).reservation;
  const uint64_t second = driver.reserve({"m"}, with_id(asking_tokens(10), "id")).reservation;
  driver.settle(second, 1);
  driver.settle(first, 1);
  const uint64_t third = driver.reserve({"m"}, asking_tokens(10)).reservation;
  EXPECT_EQ(driver.settle(second, 1).code, QuotaCode::ok);
  EXPECT_EQ(driver.reserve({"m"}, asking_tokens(10)).code, QuotaCode::ok);
  EXPECT_EQ(driver.settle(second, 1).code, QuotaCode::unknown_reservation);
  EXPECT_EQ(driver.settle(first, 1).code, QuotaCode::ok);
  // Its id is free with it.
  driver.settle(third, 1);
  const QuotaAnswer again = driver.reserve({"m"}, with_id(asking_tokens(10), "id"));
  EXPECT_EQ(again.code, QuotaCode::ok);
  EXPECT_NE(again.reservation, second);
}

// A settle's refund serves a waiter, and its reservation takes the settled one's place.
TEST(QuotaStore, an_answer_is_of_the_reservation_that_ended_even_when_its_place_is_taken) {
  for (const bool settles : {true, false}) {
    StoreDriver driver({.subjects_max = 3, .reservations_max = 1, .waiters_max = 2});
    driver.put("m", {slots(1)});
    const uint64_t id = driver.reserve({"m"}, asking_tokens(10)).reservation;
    driver.reserve({"m"}, waiting(asking_tokens(77), 1));
    const QuotaAnswer answer = settles ? driver.settle(id, 4) : driver.cancel(id);
    ASSERT_EQ(driver.served(), std::vector<api::Ticket>{1});
    EXPECT_EQ(answer.reservation, id);
    EXPECT_EQ(answer.state,
              settles ? api::ReservationState::settled : api::ReservationState::cancelled);
    EXPECT_EQ(answer.amounts.input_tokens, settles ? 4U : 0U);
  }
}

// As many ends as reservations are remembered; then the first that ended makes room.
TEST(QuotaStore, an_id_does_not_name_the_next_one_in_its_place) {
  StoreDriver driver({.subjects_max = 3, .reservations_max = 1, .waiters_max = 2});
  driver.put("m", {tpm(100)});
  const uint64_t first = driver.reserve({"m"}, asking_tokens(10)).reservation;
  driver.cancel(first);
  const uint64_t next = driver.reserve({"m"}, asking_tokens(10)).reservation;
  EXPECT_EQ(driver.cancel(first).code, QuotaCode::ok);
  driver.cancel(next);
  driver.reserve({"m"}, asking_tokens(10));
  EXPECT_EQ(driver.cancel(first).code, QuotaCode::unknown_reservation);
  EXPECT_EQ(driver.used("m", "tpm"), 10U);
}

TEST(QuotaStore, ids_lead_to_the_shard_of_the_first_subject) {
  StoreDriver driver({.subjects_max = 3, .reservations_max = 3, .waiters_max = 2});
  driver.put("{a}known", {rpm(5)});
  for (const std::vector<std::string>& subjects :
       {std::vector<std::string>{"{a}known"}, {"{a}unknown", "{a}known"}, {"unknown"}}) {
    const uint64_t id = driver.reserve(subjects, asking_tokens(1)).reservation;
    EXPECT_EQ(proto::reservation_shard(id, 200),
              proto::owner_shard(proto::routing_hash(subjects[0], 0), 200));
  }
}

TEST(QuotaStore, does_not_grow_by_checks_nor_by_unknown_names) {
  StoreDriver driver(small);
  driver.put("m", {rpm(5)});
  for (int name = 0; name < 1'000; ++name) {
    EXPECT_EQ(driver.check({numbered("x", name)}, asking_tokens(1)).code,
              QuotaCode::unknown_subject_allowed);
    EXPECT_EQ(driver.record({numbered("y", name)}, {}).code, QuotaCode::unknown_subject_allowed);
    driver.row(numbered("z", name));
    driver.reset(numbered("r", name));
  }
  EXPECT_EQ(driver.store.subjects_count(), 1U);
  EXPECT_EQ(driver.store.statistics().unknown_subjects, 2'000U);
}

TEST(QuotaStore, counts_its_decisions) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  const auto reserves = [&driver](QuotaCode code) {
    return driver.store.statistics().reserves[static_cast<size_t>(code)];
  };
  driver.settle(driver.reserve({"m"}, asking_tokens(60)).reservation, 20);
  driver.cancel(driver.reserve({"m"}, asking_tokens(60)).reservation);
  driver.reserve({"m"}, asking_tokens(101));
  driver.reserve({"m"}, asking_tokens(80));
  driver.reserve({"m"}, waiting(asking_tokens(10), 1));
  driver.check({"m"}, asking_tokens(1));
  driver.record({"m"}, {});
  driver.advance_ms(60'000);
  EXPECT_EQ(driver.served(), std::vector<api::Ticket>{1});
  EXPECT_EQ(reserves(QuotaCode::ok), 4U);
  EXPECT_EQ(reserves(QuotaCode::queued), 1U);
  EXPECT_EQ(reserves(QuotaCode::exceeds_limit), 1U);
  const Statistics& statistics = driver.store.statistics();
  EXPECT_EQ(statistics.settled, 1U);
  EXPECT_EQ(statistics.cancelled, 1U);
  EXPECT_EQ(statistics.recorded, 1U);
  EXPECT_EQ(statistics.waited, 1U);
  EXPECT_EQ(statistics.expired, 1U);
  EXPECT_EQ(statistics.tokens_refunded, 100U);
}

TEST(QuotaStore, keeps_outcomes_until_they_are_fetched) {
  StoreDriver driver;
  driver.put("m", {tpm(10)});
  const uint64_t id = driver.reserve({"m"}, asking_tokens(10)).reservation;
  driver.reserve({"m"}, waiting(asking_tokens(1), 1));
  driver.reserve({"m"}, waiting(asking_tokens(1), 2));
  driver.cancel(id);
  ASSERT_EQ(driver.store.grants().size(), 2U);
  EXPECT_EQ(driver.store.grants()[0].code, QuotaCode::ok);
  driver.store.keep_grants(1);
  EXPECT_EQ(driver.store.grants()[0].ticket, 1U);
}

TEST(QuotaStore, address_space_grows_with_its_bounds) {
  StoreDriver few(small);
  StoreDriver many({.subjects_max = 100'000, .reservations_max = 100'000, .waiters_max = 100'000});
  EXPECT_GT(few.store.reserved_bytes(), 0U);
  EXPECT_GT(many.store.reserved_bytes(), few.store.reserved_bytes() * 10);
}

}  // namespace
}  // namespace sluice::quota
