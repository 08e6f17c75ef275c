// Goal:   a lap finds everything that lives and has an old record, once, and is complete one cut
//         after it has passed it.
// Method: the tables; records are written by marking them so.
#include "quota/lap.hpp"

#include <gtest/gtest.h>

#include <array>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class LapTest : public testing::Test {
 protected:
  using Places = std::vector<uint32_t>;

  void SetUp() override {
    log_.set_copier(copier_);
    for (const char* const name : {"a", "b", "c"}) driver_.make(name, {tpm(100)});
    driver_.open(TableDriver::request(0));
    write_changes();
  }

  void write_changes() {
    log_.begin_cut();
    uint32_t place = 0;
    while (log_.subjects().next_frozen({&place, 1}) > 0) {
      log_.set_written(driver_.subjects[place], place);
    }
    while (log_.reservations().next_frozen({&place, 1}) > 0) {
      log_.set_written(driver_.reservations[place], place);
    }
  }
  void begin_lap() {
    write_changes();
    log_.begin_lap();
    lap_.begin(9);
  }
  Places next(size_t count) {
    Places places(count);
    int64_t checks = 100;
    places.resize(lap_.next(places, checks));
    return places;
  }

  struct NoCopier final : CopyFirst {
    void copy_subject(SubjectIndex) noexcept override {}
    void copy_reservation(uint32_t) noexcept override {}
  };

  TableDriver driver_{{.subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 8,
                       .name_seed = 42,
                       .id_seed = 42,
                       .keeps_state = true}};
  ChangeLog& log_ = driver_.log;
  NoCopier copier_;
  Lap lap_{driver_.clock, driver_.subjects, driver_.reservations, log_};
};

TEST_F(LapTest, passes_subjects_then_reservations_then_ends) {
  Reservation& ended = driver_.open(TableDriver::request(1));
  write_changes();
  driver_.reservations.touch(ended);
  driver_.reservations.end(ended, api::ReservationState::settled);
  write_changes();
  begin_lap();
  EXPECT_EQ(next(2), (Places{0, 1}));
  EXPECT_EQ(next(2), Places{2});
  EXPECT_EQ(next(2), Places{});
  EXPECT_EQ(lap_.stage(), Lap::Stage::reservations);
  EXPECT_EQ(next(2), Places{0});
  EXPECT_EQ(next(2), Places{});
  EXPECT_EQ(lap_.stage(), Lap::Stage::ends);
  EXPECT_EQ(next(2), Places{0});
  EXPECT_FALSE(lap_.has_passed());
  EXPECT_EQ(next(2), Places{});
  EXPECT_TRUE(lap_.has_passed());
}

TEST_F(LapTest, skips_what_has_changed_and_what_it_has) {
  begin_lap();
  log_.set_written(driver_.subjects[0], 0);
  log_.touch(driver_.subjects[2], 2);
  EXPECT_EQ(next(9), Places{1});
}

TEST_F(LapTest, skips_ends_without_a_record_and_those_that_are_over) {
  Reservation& without = driver_.open(TableDriver::request(1));
  driver_.reservations.end(without, api::ReservationState::settled);
  Reservation& with = driver_.open(TableDriver::request(1));
  write_changes();
  driver_.reservations.touch(with);
  driver_.reservations.end(with, api::ReservationState::settled);
  write_changes();
  driver_.advance_ms(1'000);
  begin_lap();
  while (!lap_.has_passed()) {
    if (lap_.stage() == Lap::Stage::ends) {
      EXPECT_EQ(next(9), Places{});
    } else {
      next(9);
    }
  }
}

TEST_F(LapTest, examines_no_more_places_than_it_may) {
  begin_lap();
  std::array<uint32_t, 9> places{};
  int64_t checks = 2;
  EXPECT_EQ(lap_.next(places, checks), 2U);
  EXPECT_EQ(checks, 0);
  EXPECT_EQ(lap_.next(places, checks), 0U);
  EXPECT_EQ(lap_.stage(), Lap::Stage::subjects);
}

TEST_F(LapTest, is_complete_one_cut_after_it_has_passed_everything) {
  EXPECT_FALSE(lap_.end_cut(false));
  begin_lap();
  EXPECT_FALSE(lap_.end_cut(false));
  while (!lap_.has_passed()) next(9);
  EXPECT_FALSE(lap_.end_cut(false));
  EXPECT_TRUE(lap_.end_cut(false));
  EXPECT_EQ(lap_.epoch(), 9U);
  EXPECT_FALSE(lap_.is_under_way());
  EXPECT_FALSE(lap_.end_cut(false));
}

TEST_F(LapTest, is_complete_with_a_cut_that_has_everything) {
  begin_lap();
  while (!lap_.has_passed()) next(9);
  EXPECT_TRUE(lap_.end_cut(true));
}

}  // namespace
}  // namespace sluice::quota
