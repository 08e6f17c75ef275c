// Goal:   every object that changes is live once, frozen ones are copied before they change, and
//         what had a record and is gone is listed.
// Method: the tables with a log that is on; a copier that notes its calls.
#include "quota/change_log.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class NotingCopier final : public CopyFirst {
 public:
  explicit NotingCopier(TableDriver& driver) : driver_(driver) {}

  void copy_subject(SubjectIndex index) noexcept override {
    subjects.push_back(index);
    driver_.log.set_written(driver_.subjects[index], index);
  }
  void copy_reservation(uint32_t index) noexcept override {
    reservations.push_back(index);
    driver_.log.set_written(driver_.reservations[index], index);
  }

  std::vector<SubjectIndex> subjects;
  std::vector<uint32_t> reservations;

 private:
  TableDriver& driver_;
};

class ChangeLogTest : public testing::Test {
 protected:
  using Places = std::vector<uint32_t>;

  void SetUp() override { log_.set_copier(copier_); }

  // Writes what is frozen, as a cut does.
  Places write_subjects() {
    Places written;
    uint32_t place = 0;
    while (log_.subjects().next_frozen({&place, 1}) > 0) {
      written.push_back(place);
      log_.set_written(driver_.subjects[place], place);
    }
    return written;
  }
  Places write_reservations() {
    Places written;
    uint32_t place = 0;
    while (log_.reservations().next_frozen({&place, 1}) > 0) {
      written.push_back(place);
      log_.set_written(driver_.reservations[place], place);
    }
    return written;
  }
  Places cut() {
    log_.begin_cut();
    write_reservations();
    return write_subjects();
  }

  TableDriver driver_{{.subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 8,
                       .name_seed = 42,
                       .id_seed = 42,
                       .keeps_state = true}};
  ChangeLog& log_ = driver_.log;
  NotingCopier copier_{driver_};
  const SubjectIndex a_ = driver_.make("a", {tpm(100)});
  const SubjectIndex b_ = driver_.make("b", {tpm(100)});
};

TEST_F(ChangeLogTest, a_subject_is_live_from_birth_and_clean_once_it_is_written) {
  EXPECT_EQ(cut(), (Places{a_, b_}));
  EXPECT_EQ(cut(), Places{});
  log_.touch(driver_.subjects[b_], b_);
  log_.touch(driver_.subjects[b_], b_);
  EXPECT_EQ(cut(), Places{b_});
  EXPECT_TRUE(copier_.subjects.empty());
}

TEST_F(ChangeLogTest, a_frozen_one_is_copied_before_it_changes) {
  log_.begin_cut();
  log_.touch(driver_.subjects[a_], a_);
  EXPECT_EQ(copier_.subjects, Places{a_});
  EXPECT_EQ(write_subjects(), Places{b_});
  log_.touch(driver_.subjects[b_], b_);
  EXPECT_EQ(copier_.subjects, Places{a_}) << "it was written";
  EXPECT_EQ(cut(), (Places{a_, b_}));
}

TEST_F(ChangeLogTest, one_that_may_change_is_copied_and_stays_clean) {
  log_.begin_cut();
  log_.copy_first(driver_.subjects[a_], a_);
  log_.copy_first(driver_.subjects[a_], a_);
  EXPECT_EQ(copier_.subjects, Places{a_});
  EXPECT_EQ(write_subjects(), Places{b_});
  EXPECT_EQ(cut(), Places{});
}

TEST_F(ChangeLogTest, only_a_subject_with_a_record_is_listed_when_it_is_forgotten) {
  const NameHash name = driver_.subjects[a_].hash;
  driver_.subjects.forget_if_idle(b_);
  cut();
  EXPECT_EQ(log_.forgotten().size(), 0U);
  driver_.subjects.forget_if_idle(a_);
  EXPECT_EQ(cut(), Places{});
  ASSERT_EQ(log_.forgotten().size(), 1U);
  EXPECT_EQ(log_.forgotten()[0].name, name);
  cut();
  EXPECT_EQ(log_.forgotten().size(), 0U);
}

TEST_F(ChangeLogTest, a_reservation_that_comes_and_goes_between_two_cuts_leaves_nothing) {
  driver_.reservations.end(driver_.open(TableDriver::request(a_)), api::ReservationState::settled);
  log_.begin_cut();
  EXPECT_FALSE(log_.reservations().has_frozen());
  EXPECT_EQ(log_.departed().size(), 0U);
}

TEST_F(ChangeLogTest, one_with_a_record_departs) {
  Reservation& made = driver_.open(TableDriver::request(a_, 7));
  const uint64_t id = made.id;
  cut();
  driver_.reservations.touch(made);
  driver_.reservations.end(made, api::ReservationState::settled);
  cut();
  ASSERT_EQ(log_.departed().size(), 1U);
  const DepartedReservation& departed = log_.departed()[0];
  EXPECT_TRUE(departed.is_remembered);
  EXPECT_EQ(departed.end.id, id);
  EXPECT_EQ(departed.end.state, api::ReservationState::settled);
  EXPECT_EQ(departed.end.amounts.input_tokens, 7U);
}

TEST_F(ChangeLogTest, one_that_was_forgotten_before_its_time_is_gone) {
  Reservation& made = driver_.open(TableDriver::request(a_));
  cut();
  driver_.reservations.touch(made);
  driver_.reservations.expire(made);
  cut();
  driver_.reservations.forget(made);
  cut();
  ASSERT_EQ(log_.departed().size(), 1U);
  EXPECT_FALSE(log_.departed()[0].is_remembered);
}

// Its record ends at the same time.
TEST_F(ChangeLogTest, one_that_is_forgotten_in_time_is_not_gone) {
  Reservation& made = driver_.open(TableDriver::request(a_));
  driver_.reservations.touch(made);
  driver_.reservations.expire(made);
  cut();
  driver_.advance_ms(1'000);
  driver_.reservations.forget(*driver_.due());
  cut();
  EXPECT_EQ(log_.departed().size(), 0U);
}

TEST_F(ChangeLogTest, a_frozen_reservation_is_copied_when_it_ends) {
  Reservation& made = driver_.open(TableDriver::request(a_));
  log_.begin_cut();
  driver_.reservations.touch(made);
  EXPECT_EQ(copier_.reservations.size(), 1U);
  driver_.reservations.end(made, api::ReservationState::cancelled);
  EXPECT_EQ(write_reservations(), Places{});
  write_subjects();
  cut();
  EXPECT_EQ(log_.departed().size(), 1U);
}

TEST_F(ChangeLogTest, records_of_another_lap_are_needed_again) {
  cut();
  EXPECT_FALSE(log_.needs_lap(driver_.subjects[a_]));
  log_.begin_cut();
  log_.begin_lap();
  EXPECT_TRUE(log_.needs_lap(driver_.subjects[a_]));
  log_.set_written(driver_.subjects[a_], a_);
  EXPECT_FALSE(log_.needs_lap(driver_.subjects[a_]));
  log_.touch(driver_.subjects[b_], b_);
  EXPECT_FALSE(log_.needs_lap(driver_.subjects[b_])) << "the next cut writes it";
}

TEST_F(ChangeLogTest, what_was_restored_is_clean_and_has_a_record) {
  log_.set_restored(driver_.subjects[a_], a_);
  EXPECT_EQ(cut(), Places{b_});
  driver_.subjects.forget_if_idle(a_);
  cut();
  EXPECT_EQ(log_.forgotten().size(), 1U);
}

TEST(ChangeLogOff, everything_is_live_for_ever) {
  TableDriver driver;
  const SubjectIndex index = driver.make("a", {tpm(100)});
  Reservation& made = driver.open(TableDriver::request(index));
  driver.log.touch(driver.subjects[index], index);
  driver.reservations.touch(made);
  driver.reservations.end(made, api::ReservationState::settled);
  driver.subjects.forget_if_idle(index);
  EXPECT_FALSE(driver.log.is_on());
  EXPECT_FALSE(driver.log.subjects().has_live());
  EXPECT_FALSE(driver.log.reservations().has_live());
}

}  // namespace
}  // namespace sluice::quota
