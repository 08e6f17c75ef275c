// Goal:   reservations are what their newest records say; a part does what its home says, and is
//         refunded if there is none.
// Method: records by hand, on one of two shards; tests/property/quota_state_test.cpp has those that
//         stores write, also for other numbers of shards.
#include "quota/reservation_restorer.hpp"

#include <gtest/gtest.h>

#include "proto/reservation_id.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::ReservationState;
using state::ReservationRecord;
using Where = state::ReservedSubject::Where;

class ReservationRestorerTest : public testing::Test {
 protected:
  static constexpr uint16_t route_here = 0;        // of shard 0 of 2
  static constexpr uint16_t route_there = 40'000;  // of shard 1
  static constexpr Options options{.shard = 0,
                                   .shards = 2,
                                   .subjects_max = 8,
                                   .reservations_max = 3,
                                   .waiters_max = 8,
                                   .name_seed = 42,
                                   .id_seed = 42,
                                   .keeps_state = true,
                                   .node_slot = proto::reservation_id::slot_of_node(0),
                                   .nodes_count = 3};

  static uint64_t id(uint16_t route, uint64_t number, bool several = false) {
    return proto::reservation_id::make(route, several, number);
  }
  state::ReservedSubject key(SubjectIndex index, uint16_t route = route_here) {
    const NameHash& hash = driver_.subjects[index].hash;
    return {.where = Where::here,
            .key = {.name = {.low = hash.low, .high = hash.high}, .route = route}};
  }
  // Of 10 tokens; the caller has charged them.
  ReservationRecord record(uint64_t of) {
    ReservationRecord made{.id = of,
                           .lifetime_ms = 1'000,
                           .due_ms = driver_.clock.ms() + 500,
                           .amounts = {.requests = 1, .input_tokens = 10},
                           .charged_ns = driver_.clock.ns(),
                           .order = driver_.clock.order(),
                           .subjects_count = 1};
    made.subjects[0] = key(a_);
    return made;
  }
  // The second subject, which is here, of one that has its home on the other shard.
  ReservationRecord part(uint64_t number) {
    ReservationRecord made = record(id(route_there, number, true));
    made.is_part = true;
    made.due_ms = 0;
    made.subjects_count = 2;
    made.subjects[0] = {};
    made.subjects[1] = key(a_);
    return made;
  }
  ReservationRecord home_of_part(uint64_t number, ReservationState state) {
    ReservationRecord made = record(id(route_there, number, true));
    made.state = state;
    made.subjects_count = 2;
    made.subjects[0] = {.where = Where::here, .key = {.name = {.low = 1}, .route = route_there}};
    made.subjects[1] = {.where = Where::other_shard, .shard = 0};
    return made;
  }
  void charge(uint64_t tokens) { driver_.use(a_, tokens, true); }
  void take(const state::StoredRecord& stored, uint16_t shard = 0) {
    EXPECT_TRUE(restorer_.records().take(stored, {.shard = shard}));
  }
  void take_home(const state::StoredRecord& stored) {
    EXPECT_TRUE(restorer_.homes().take(stored, {.shard = 1}));
  }
  const Subject& subject() { return driver_.subjects[a_]; }

  TableDriver driver_{options};
  const SubjectIndex a_ = driver_.make("a", {tpm(100), slots(5)});
  ReservationBook& reservations_ = driver_.reservations;
  ReservationRestorer restorer_{options, driver_.clock, driver_.subjects, reservations_, 2};
};

TEST_F(ReservationRestorerTest, opens_one_again) {
  charge(10);
  ReservationRecord stored = record(id(route_here, 5));
  stored.owner = "worker 7";
  stored.client_id = {.low = 1, .high = 2};
  take(stored);
  restorer_.finish();
  const Reservation* const made = reservations_.find(stored.id);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->state, ReservationState::open);
  EXPECT_EQ(made->timer.due_ms(), stored.due_ms);
  EXPECT_EQ(reservations_.owner_of(*made), "worker 7");
  EXPECT_EQ(subject().open, 1U);
  EXPECT_EQ(subject().held, 1U);
  EXPECT_EQ(reservations_.open_count(), 1U);
  reservations_.check_invariants();
}

TEST_F(ReservationRestorerTest, forgets_parts_on_nodes_that_the_list_does_not_have_any_more) {
  const auto id_of = [](uint16_t node) { return id(route_here, 20 + node, true); };
  for (const uint16_t node : {2, 3, 0}) {
    charge(10);
    ReservationRecord stored = record(id_of(node));
    stored.subjects_count = 2;
    stored.subjects[1] = {.where = Where::other_node, .node = node};
    take(stored);
  }
  restorer_.finish();
  const auto part_of = [&](uint16_t node) { return reservations_.find(id_of(node))->subjects[1]; };
  EXPECT_EQ(part_of(2), subject_of_shard(api::stop_of_node(2)));
  EXPECT_EQ(part_of(3), no_subject);
  EXPECT_EQ(part_of(0), no_subject);  // this one, by now
}

TEST_F(ReservationRestorerTest, takes_the_newest_record) {
  const uint64_t of = id(route_here, 5);
  take(state::EndedReservation{.id = of, .forgotten_ms = driver_.clock.ms() + 1});
  take(record(of));
  take(state::GoneReservation{.id = of + 1});
  take(record(of + 1));
  take(state::EndedReservation{.id = of + 2, .forgotten_ms = driver_.clock.ms()});
  take(record(of + 2));
  restorer_.finish();
  EXPECT_EQ(restorer_.count(), 0U);
  EXPECT_EQ(restorer_.ends_count(), 1U);
  EXPECT_EQ(reservations_.find_record(of)->state, ReservationState::settled);
  EXPECT_FALSE(reservations_.find_record(of + 1).has_value());
  EXPECT_FALSE(reservations_.find_record(of + 2).has_value());
}

TEST_F(ReservationRestorerTest, does_not_take_what_is_over_or_has_its_home_on_another_shard) {
  ReservationRecord over = record(id(route_here, 5));
  over.state = ReservationState::expired;
  over.due_ms = driver_.clock.ms();
  take(over);
  take(record(over.id));
  take(record(id(route_there, 6)));
  restorer_.finish();
  EXPECT_EQ(restorer_.count(), 0U);
}

TEST_F(ReservationRestorerTest, one_that_is_overdue_is_due_at_once) {
  ReservationRecord stored = record(id(route_here, 5));
  stored.due_ms = driver_.clock.ms() - 100;
  take(stored);
  restorer_.finish();
  EXPECT_EQ(driver_.due(), reservations_.find(stored.id));
}

TEST_F(ReservationRestorerTest, one_that_is_bound_to_a_connection_is_to_expire) {
  ReservationRecord stored = record(id(route_here, 5));
  stored.is_connection_bound = true;
  take(stored);
  EXPECT_FALSE(reservations_.bindings().has_any_to_expire());
  restorer_.finish();
  EXPECT_EQ(reservations_.bindings().next_to_expire(), reservations_.find(stored.id));
}

TEST_F(ReservationRestorerTest, ended_ones_are_forgotten_in_the_order_of_their_ends) {
  for (uint64_t number = 0; number < 3; ++number) {
    ReservationRecord stored = record(id(route_here, 5 + number));
    stored.state = ReservationState::expired;
    stored.expired_order = driver_.clock.order();
    take(stored);
  }
  restorer_.finish();
  EXPECT_EQ(restorer_.count(), 3U);
  driver_.open(TableDriver::request(a_));  // takes the place of the one that ended first
  EXPECT_EQ(reservations_.find(id(route_here, 7)), nullptr);
  EXPECT_NE(reservations_.find(id(route_here, 6)), nullptr);
}

TEST_F(ReservationRestorerTest, counts_those_that_find_no_room) {
  for (uint64_t number = 0; number < 5; ++number) take(record(id(route_here, 5 + number)));
  take(record(id(route_here, 9)));
  restorer_.finish();
  EXPECT_EQ(restorer_.count(), 3U);
  EXPECT_EQ(restorer_.left_out_count(), 2U);
}

// --------------------------------------------------------------------------------------- parts

class Parts : public ReservationRestorerTest {
 protected:
  void SetUp() override {
    charge(10);
    take(part(5));
    EXPECT_TRUE(restorer_.needs_homes());
  }
  uint64_t used() { return driver_.used(a_); }
  Reservation* found() { return reservations_.find(id(route_there, 5, true)); }
};

TEST_F(Parts, are_kept_if_their_home_is_open) {
  take_home(home_of_part(5, ReservationState::open));
  restorer_.finish();
  ASSERT_NE(found(), nullptr);
  EXPECT_TRUE(found()->is_part);
  EXPECT_EQ(used(), 10U);
  EXPECT_EQ(subject().open, 1U);
  EXPECT_EQ(reservations_.open_count(), 0U);
  reservations_.check_invariants();
}

TEST_F(Parts, are_refunded_if_they_have_no_home) {
  restorer_.finish();
  EXPECT_EQ(found(), nullptr);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(subject().open, 0U);
  EXPECT_EQ(subject().held, 0U);
  EXPECT_EQ(restorer_.refunded_count(), 1U);
  driver_.log.begin_cut();
  EXPECT_EQ(driver_.log.departed().size(), 1U) << "the next start must not refund it again";
}

TEST_F(Parts, end_as_their_home_did) {
  take_home(state::EndedReservation{.id = id(route_there, 5, true),
                                    .forgotten_ms = driver_.clock.ms() + 100,
                                    .amounts = {.requests = 1, .input_tokens = 4}});
  take_home(home_of_part(5, ReservationState::open));  // an older record
  restorer_.finish();
  EXPECT_EQ(found(), nullptr);
  EXPECT_EQ(used(), 4U);
  EXPECT_EQ(subject().open, 0U);
  EXPECT_EQ(restorer_.refunded_count(), 0U);
}

TEST_F(Parts, expire_with_their_home) {
  take_home(home_of_part(5, ReservationState::expired));
  restorer_.finish();
  ASSERT_NE(found(), nullptr);
  EXPECT_EQ(found()->state, ReservationState::expired);
  EXPECT_EQ(found()->lifetime_ms, 1'000U + part_slack_ms);
  EXPECT_EQ(used(), 10U);
  EXPECT_EQ(subject().open, 0U);
}

TEST_F(Parts, of_another_shard_are_not_taken) {
  take(part(6), 1);
  take_home(home_of_part(5, ReservationState::open));
  take_home(home_of_part(6, ReservationState::open));
  restorer_.finish();
  EXPECT_EQ(restorer_.count(), 1U);
}

TEST_F(Parts, that_have_expired_stay_when_their_home_is_forgotten) {
  ReservationRecord expired = part(6);
  expired.state = ReservationState::expired;
  expired.expired_order = driver_.clock.order();
  expired.due_ms = driver_.clock.ms() + 700;
  take(expired);
  take_home(home_of_part(5, ReservationState::open));
  restorer_.finish();
  EXPECT_NE(reservations_.find(expired.id), nullptr);
  EXPECT_EQ(restorer_.refunded_count(), 0U);
}

// ----------------------------------------------------------------- from one shard to two

// All subjects were on one shard, as the id says.
class ComeApart : public ReservationRestorerTest {
 protected:
  // The subject `a` is here; the other one is on the other shard.
  ReservationRecord apart(uint16_t route) {
    ReservationRecord made = record(id(route, 5));
    made.subjects_count = 2;
    made.subjects[1] = {.where = Where::here, .key = {.name = {.low = 1}, .route = route_there}};
    return made;
  }
  Reservation* restore(const ReservationRecord& stored) {
    EXPECT_TRUE(from_one_.records().take(stored, {.shard = 0}));
    if (from_one_.needs_homes()) {
      EXPECT_TRUE(from_one_.homes().take(stored, {.shard = 0}));
    }
    from_one_.finish();
    reservations_.check_invariants();
    return reservations_.find(stored.id);
  }

  ReservationRestorer from_one_{options, driver_.clock, driver_.subjects, reservations_, 1};
};

TEST_F(ComeApart, the_home_knows_the_shard_of_its_part) {
  const Reservation* const home = restore(apart(route_here));
  ASSERT_NE(home, nullptr);
  EXPECT_FALSE(home->is_part);
  EXPECT_TRUE(home->has_parts);
  EXPECT_EQ(home->subjects[0], a_);
  EXPECT_EQ(home->subjects[1], subject_of_shard(1));
}

TEST_F(ComeApart, the_other_shard_has_the_part_under_the_same_ids) {
  ReservationRecord stored = apart(route_there);
  stored.client_id = {.low = 1, .high = 2};
  stored.request_hash = 3;
  const Reservation* const part = restore(stored);
  ASSERT_NE(part, nullptr);
  EXPECT_TRUE(part->is_part);
  EXPECT_FALSE(part->has_parts);
  EXPECT_EQ(part->subjects[0], a_);
  EXPECT_EQ(part->subjects[1], no_subject);
  EXPECT_EQ(part->request_hash, 3U);
  EXPECT_EQ(subject().open, 1U);
  EXPECT_EQ(reservations_.open_count(), 0U);
  EXPECT_EQ(from_one_.refunded_count(), 0U);
}

TEST_F(ComeApart, an_expired_part_stays_a_little_longer_than_its_home) {
  ReservationRecord stored = apart(route_there);
  stored.state = ReservationState::expired;
  stored.expired_order = driver_.clock.order();
  const Reservation* const part = restore(stored);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->timer.due_ms(), stored.due_ms + part_slack_ms);
}

TEST_F(ComeApart, a_part_that_keeps_the_clients_id_does_so_as_long_as_its_home) {
  ReservationRecord stored = apart(route_there);
  stored.state = ReservationState::settled;
  stored.client_id = {.low = 1, .high = 2};
  stored.request_hash = 3;
  const Reservation* const part = restore(stored);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->timer.due_ms(), stored.due_ms);
}

TEST_F(ComeApart, one_that_stays_together_has_no_parts) {
  ReservationRecord stored = record(id(route_here, 5));
  const Reservation* const home = restore(stored);
  ASSERT_NE(home, nullptr);
  EXPECT_FALSE(home->has_parts);
}

}  // namespace
}  // namespace sluice::quota
