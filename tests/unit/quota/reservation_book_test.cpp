// Goal:   a reservation is found from its opening until it is forgotten, holds its subjects' slots
//         exactly while it is open, and leaves its place to others when they need it.
// Method: a book of four places, driven by hand through every way to end.
#include "quota/reservation_book.hpp"

#include <gtest/gtest.h>

#include "base/splitmix.hpp"
#include "proto/reservation_id.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::ReservationState;

class ReservationBookTest : public testing::Test {
 protected:
  ReservationBookTest() : subject_(driver_.make("m", {slots(9)})) {}
  ~ReservationBookTest() override { check(); }

  void check() {
    driver_.subjects.check_invariants();
    reservations_.check_invariants();
  }
  Reservation& open() { return driver_.open(TableDriver::request(subject_)); }
  Request with_client_id() {
    Request request = TableDriver::request(subject_);
    request.id = {.low = 1, .high = 2};
    request.request_hash = 3;
    return request;
  }
  bool knows_client_id() const {
    const auto found = driver_.client_ids.find({.low = 1, .high = 2}, [&](ClientIds::Entry entry) {
      return driver_.reservations[entry.index].client_id;
    });
    return found.has_value();
  }

  TableDriver driver_;
  ReservationBook& reservations_ = driver_.reservations;
  const SubjectIndex subject_;
};

TEST_F(ReservationBookTest, finds_an_open_one_by_its_id) {
  Request request = TableDriver::request(subject_, 30);
  const Reservation& made = driver_.open(request, "worker 7");
  EXPECT_EQ(reservations_.find(made.id), &made);
  EXPECT_EQ(reservations_.find(made.id + 1), nullptr);
  EXPECT_EQ(reservations_.owner_of(made), "worker 7");
  EXPECT_EQ(made.amounts, request.amounts);
  EXPECT_EQ(reservations_.lifetime_left_ms(made), 1'000U);
  EXPECT_EQ(reservations_.open_count(), 1U);
}

// Its id has all the bits by which the index finds it at 0, as those of id 0 are.
TEST(ReservationBook, id_0_finds_nothing_not_even_what_is_held) {
  TableDriver driver{
      {.subjects_max = 8, .reservations_max = 4, .waiters_max = 8, .id_seed = base::splitmix64(0)}};
  Request request = TableDriver::request_of_all({driver.make("m", {slots(9)})});
  request.subjects[request.subjects_count++] = subject_of_shard(1);
  const api::QuotaBatch batch;
  Reservation& held =
      driver.reservations[driver.reservations.hold(request, Home::here, true, batch)];
  ASSERT_EQ(held.id & proto::reservation_id::random_mask, 0U);
  EXPECT_EQ(driver.reservations.find(0), nullptr);
  driver.reservations.release(held);
  driver.reservations.drop(held);
}

TEST_F(ReservationBookTest, holds_a_slot_until_it_is_settled) {
  Reservation& made = open();
  EXPECT_EQ(driver_.subjects[subject_].open, 1U);
  check();
  reservations_.end(made, ReservationState::settled);
  EXPECT_EQ(driver_.subjects[subject_].open, 0U);
  EXPECT_EQ(driver_.subjects[subject_].held, 0U);
  EXPECT_EQ(reservations_.open_count(), 0U);
}

TEST_F(ReservationBookTest, remembers_the_end_as_a_record) {
  Reservation& made = open();
  const uint64_t id = made.id;
  reservations_.end(made, ReservationState::cancelled);
  EXPECT_EQ(reservations_.find(id), nullptr);
  ASSERT_TRUE(reservations_.find_record(id));
  EXPECT_EQ(reservations_.find_record(id)->state, ReservationState::cancelled);
  EXPECT_FALSE(reservations_.find_record(id)->late);
  driver_.advance_ms(1'000);
  EXPECT_FALSE(reservations_.find_record(id));
}

TEST_F(ReservationBookTest, an_expired_one_frees_its_slot_and_may_be_settled_late) {
  Reservation& made = open();
  const uint64_t id = made.id;
  driver_.advance_ms(1'000);
  ASSERT_EQ(driver_.due(), &made);
  reservations_.expire(made);
  check();
  EXPECT_EQ(driver_.subjects[subject_].open, 0U);
  EXPECT_EQ(driver_.subjects[subject_].held, 1U);
  ASSERT_EQ(reservations_.find(id), &made);
  reservations_.end(made, ReservationState::settled);
  EXPECT_TRUE(reservations_.find_record(id)->late);
  EXPECT_EQ(driver_.subjects[subject_].held, 0U);
}

TEST_F(ReservationBookTest, an_expired_one_is_forgotten_after_as_long_again) {
  Reservation& made = open();
  const uint64_t id = made.id;
  driver_.advance_ms(1'000);
  reservations_.expire(*driver_.due());
  driver_.advance_ms(999);
  EXPECT_EQ(driver_.due(), nullptr);
  driver_.advance_ms(1);
  ASSERT_EQ(driver_.due(), &made);
  reservations_.forget(made);
  EXPECT_FALSE(reservations_.find_record(id));
}

TEST_F(ReservationBookTest, extending_moves_the_end) {
  Reservation& made = open();
  driver_.advance_ms(900);
  reservations_.extend(made, 5'000);
  driver_.advance_ms(4'999);
  EXPECT_EQ(driver_.due(), nullptr);
  reservations_.extend(made, 0);  // as long as it was last given
  EXPECT_EQ(reservations_.lifetime_left_ms(made), 5'000U);
}

TEST_F(ReservationBookTest, one_with_a_clients_id_keeps_its_place_when_it_is_settled) {
  Reservation& made = driver_.open(with_client_id());
  reservations_.end(made, ReservationState::settled);
  EXPECT_EQ(reservations_.find(made.id), &made);
  EXPECT_TRUE(knows_client_id());
  EXPECT_EQ(driver_.subjects[subject_].open, 0U);
  check();
  reservations_.forget(made);
  EXPECT_FALSE(knows_client_id());
}

TEST_F(ReservationBookTest, a_clients_id_ends_with_the_lifetime) {
  Reservation& made = driver_.open(with_client_id());
  reservations_.expire(made);
  EXPECT_FALSE(knows_client_id());
}

TEST_F(ReservationBookTest, an_ended_one_makes_room_and_an_open_one_does_not) {
  std::vector<uint64_t> ids;
  for (int place = 0; place < 4; ++place) ids.push_back(open().id);
  EXPECT_FALSE(reservations_.has_room());
  reservations_.expire(*reservations_.find(ids[2]));
  reservations_.expire(*reservations_.find(ids[1]));
  EXPECT_TRUE(reservations_.has_room());
  open();
  EXPECT_FALSE(reservations_.find_record(ids[2]));  // it ended first
  EXPECT_TRUE(reservations_.find_record(ids[1]));
}

TEST_F(ReservationBookTest, a_connection_bound_one_is_unbound_by_its_end) {
  Request request = TableDriver::request(subject_);
  request.connection = 7;
  Reservation& settled = driver_.open(request);
  Reservation& expires = driver_.open(request);
  reservations_.end(settled, ReservationState::settled);
  reservations_.bindings().end(7);
  EXPECT_EQ(reservations_.bindings().next_to_expire(), &expires);
  reservations_.expire(expires);
  EXPECT_FALSE(reservations_.bindings().has_any_to_expire());
}

TEST_F(ReservationBookTest, subjects_that_had_no_quota_are_passed_over) {
  Request request = TableDriver::request(subject_);
  request.subjects_count = 2;  // the second one is no_subject
  Reservation& made = driver_.open(request);
  check();
  reservations_.end(made, ReservationState::settled);
}

}  // namespace
}  // namespace sluice::quota
