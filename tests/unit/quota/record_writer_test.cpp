// Goal:   a record has what the object has, and the reset that it has seen.
// Method: the tables, and a list in the place of the sink. tests/property/quota_state_test.cpp
//         reads records back.
#include "quota/record_writer.hpp"

#include <gtest/gtest.h>

#include "quota/quota_class.hpp"
#include "unit/quota/list_sink.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using Where = state::ReservedSubject::Where;

class RecordWriterTest : public testing::Test {
 protected:
  void SetUp() override { writer_.begin(sink_, {}); }

  const state::ReservationRecord& written(Reservation& reservation) {
    writer_.write_reservation(ReservationBook::index_of(reservation));
    return sink_.reservations.back();
  }

  TableDriver driver_{{.subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 8,
                       .name_seed = 42,
                       .id_seed = 42,
                       .keeps_state = true}};
  ListSink sink_;
  RecordWriter writer_{driver_.subjects, driver_.reservations, driver_.log};
  const SubjectIndex a_ = driver_.make("a", {tpm(100)});
};

TEST_F(RecordWriterTest, writes_a_subject_with_its_class) {
  driver_.use(a_, 7);
  writer_.write_subject(a_);
  ASSERT_EQ(sink_.subjects.size(), 1U);
  EXPECT_EQ(sink_.subjects[0].name, "a");
  EXPECT_EQ(sink_.subjects[0].quota_class, class_id(quota_text(quota_of({tpm(100)}))));
  EXPECT_FALSE(sink_.subjects[0].meters.empty());
  EXPECT_EQ(driver_.subjects[a_].mark, ChangeMark::clean);
  EXPECT_EQ(writer_.records_count(), 1U);
}

TEST_F(RecordWriterTest, writes_a_class_once_a_lap) {
  writer_.write_subject(a_);
  writer_.write_subject(a_);
  EXPECT_EQ(sink_.classes_added, 1);
  writer_.begin_lap();
  writer_.write_subject(a_);
  EXPECT_EQ(sink_.classes_added, 2);
}

TEST_F(RecordWriterTest, a_subject_has_seen_the_resets_before_it_was_made_or_used) {
  driver_.subjects.reset_all();
  const SubjectTable::Resets resets = driver_.subjects.resets();
  writer_.begin(sink_, resets);
  const SubjectIndex b = driver_.make("b", {tpm(100)});
  writer_.write_subject(a_);
  writer_.write_subject(b);
  EXPECT_EQ(sink_.subjects[0].reset_order, 0U);
  EXPECT_EQ(sink_.subjects[1].reset_order, resets.order);
  driver_.subjects.current(a_);
  writer_.write_subject(a_);
  EXPECT_EQ(sink_.subjects[2].reset_order, resets.order);
}

TEST_F(RecordWriterTest, a_subject_has_not_seen_a_reset_behind_the_cut) {
  driver_.subjects.reset_all();
  const SubjectTable::Resets before = driver_.subjects.resets();
  driver_.subjects.current(a_);
  driver_.advance_ms(1);
  driver_.subjects.reset_all();
  writer_.begin(sink_, before);
  writer_.write_subject(a_);
  EXPECT_EQ(sink_.subjects[0].reset_order, before.order);
}

TEST_F(RecordWriterTest, writes_all_of_a_reservation) {
  Request request = TableDriver::request_of_all({a_, no_subject, subject_of_shard(3)});
  request.amounts = {.requests = 2, .input_tokens = 3, .output_tokens = 4, .cost = 5};
  request.id = {.low = 11, .high = 12};
  request.request_hash = 13;
  request.connection = 14;
  Reservation& made = driver_.open(request, "worker 7");
  made.repeated = true;
  const state::ReservationRecord& record = written(made);
  EXPECT_EQ(record.id, made.id);
  EXPECT_EQ(record.state, api::ReservationState::open);
  EXPECT_FALSE(record.is_part);
  EXPECT_TRUE(record.is_connection_bound);
  EXPECT_TRUE(record.is_repeated);
  EXPECT_EQ(record.lifetime_ms, 1'000U);
  EXPECT_EQ(record.due_ms, made.timer.due_ms());
  EXPECT_EQ(record.amounts, request.amounts);
  EXPECT_EQ(record.charged_ns, driver_.clock.ns());
  EXPECT_EQ(record.order, made.order);
  EXPECT_EQ(record.client_id, (state::Hash{.low = 11, .high = 12}));
  EXPECT_EQ(record.request_hash, 13U);
  EXPECT_EQ(sink_.owners[0], "worker 7");
  ASSERT_EQ(record.subjects_count, 3);
  EXPECT_EQ(record.subjects[0].where, Where::here);
  EXPECT_EQ(record.subjects[0].key.name.low, driver_.subjects[a_].hash.low);
  EXPECT_EQ(record.subjects[0].key.route, driver_.subjects[a_].route);
  EXPECT_EQ(record.subjects[1].where, Where::without_quota);
  EXPECT_EQ(record.subjects[2].where, Where::other_shard);
  EXPECT_EQ(record.subjects[2].shard, 3);
}

TEST_F(RecordWriterTest, of_one_that_has_ended_it_is_not_known_when_it_was_charged) {
  Request request = TableDriver::request(a_);
  request.id = {.low = 11, .high = 12};
  Reservation& made = driver_.open(request);
  driver_.reservations.end(made, api::ReservationState::settled);
  const state::ReservationRecord& record = written(made);
  EXPECT_EQ(record.state, api::ReservationState::settled);
  EXPECT_EQ(record.charged_ns, 0);
  EXPECT_EQ(record.order, 0U);
}

TEST_F(RecordWriterTest, writes_those_that_are_gone) {
  writer_.write(ForgottenSubject{.name = {.low = 1, .high = 2}, .route = 3});
  writer_.write(DepartedReservation{.end = {.id = 5}, .is_part = true});
  writer_.write(DepartedReservation{.end = {.id = 6, .late = true}, .is_remembered = true});
  writer_.write(IdRecord{.id = 7, .state = api::ReservationState::cancelled});
  EXPECT_EQ(sink_.gone_subjects[0],
            (state::GoneSubject{.key = {.name = {.low = 1, .high = 2}, .route = 3}}));
  EXPECT_EQ(sink_.gone_reservations[0], (state::GoneReservation{.id = 5, .is_part = true}));
  EXPECT_EQ(sink_.ends[0], (state::EndedReservation{.id = 6, .late = true}));
  EXPECT_EQ(sink_.ends[1].id, 7U);
  EXPECT_EQ(writer_.records_count(), 4U);
}

}  // namespace
}  // namespace sluice::quota
