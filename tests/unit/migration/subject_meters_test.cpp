// Goal:   a charge lies in the sub-window of its time, and is found there at its end.
// Method: meters of quota_of(), in a new file's time.
#include "migration/subject_meters.hpp"

#include <gtest/gtest.h>

#include "migration/model_quota.hpp"
#include "quota/compiled_quota.hpp"

namespace sluice::migration {
namespace {

using Charge = SubjectMeters::Charge;
constexpr int64_t wall_ns = 1'763'000'017 * base::ns_per_s + 5;  // 37 s past its minute
constexpr size_t rpm = 0;
constexpr size_t tpm = 1;
constexpr size_t rpd = 2;

class SubjectMetersTest : public testing::Test {
 protected:
  quota::CompiledQuotas compiled_;
  const quota::CompiledQuota* quota_ = compiled_.hold(quota_of({.max_rpm = 5}));
  const StateMoment now_ = new_state_moment(wall_ns);
  SubjectMeters meters_{quota_->shapes, limiter::Moment{}};
};

TEST_F(SubjectMetersTest, a_new_files_time_has_the_place_in_its_minute) {
  EXPECT_EQ(now_.state_ns, 2 * base::ns_per_day + 37 * base::ns_per_s + 5);
  EXPECT_EQ(now_.state_at(wall_ns - 9), now_.state_ns - 9);
  EXPECT_EQ(now_.wall_at(now_.state_ns - 9), wall_ns - 9);
}

TEST_F(SubjectMetersTest, clocks_that_differ_by_their_reading_are_corrected) {
  for (const int64_t off_ns :
       {-base::ns_per_ms + 1, int64_t{-75'000}, int64_t{0}, int64_t{75'000}, base::ns_per_ms - 1}) {
    EXPECT_EQ(corrected({.state_ns = now_.state_ns, .wall_ns = wall_ns + off_ns}).wall_ns, wall_ns);
    const StateMoment later{.state_ns = now_.state_ns + 777, .wall_ns = wall_ns + 777 + off_ns};
    EXPECT_EQ(corrected(later).wall_ns, wall_ns + 777);
    EXPECT_EQ(corrected(later).state_ns, later.state_ns);
  }
  for (const int64_t off_ns : {-base::ns_per_ms, base::ns_per_ms, 2 * base::ns_per_s}) {
    EXPECT_EQ(corrected({.state_ns = now_.state_ns, .wall_ns = wall_ns + off_ns}).wall_ns,
              wall_ns + off_ns);
  }
}

TEST_F(SubjectMetersTest, events_lie_in_the_sub_windows_of_their_times) {
  charge(meters_,
         {.requests_wall_ns = {wall_ns - 56 * base::ns_per_s, wall_ns - 2 * base::ns_per_s,
                               wall_ns - base::ns_per_s - 6, wall_ns - base::ns_per_s - 5, wall_ns},
          .tokens = {{.wall_ns = wall_ns, .count = 7}, {.wall_ns = wall_ns, .count = INT64_MAX}},
          .day = DayUsage{.start_wall_ns = wall_ns - base::ns_per_day + 1, .count = 9}},
         now_);
  const int64_t begin = now_.state_ns - base::ns_per_s - 5;  // of the present sub-window
  EXPECT_EQ(meters_.charges_of_ring(rpm, now_.state_ns),
            (std::vector<Charge>{{.state_ns = begin - 52 * base::ns_per_s - 1, .amount = 1},
                                 {.state_ns = begin - 1, .amount = 2},
                                 {.state_ns = now_.state_ns, .amount = 2}}));
  EXPECT_EQ(meters_.charges_of_ring(tpm, now_.state_ns),
            (std::vector<Charge>{{.state_ns = now_.state_ns, .amount = INT64_MAX}}))
      << "a sum that stops where the library's does";
  EXPECT_EQ(meters_.charge_of_day(rpd),
            (Charge{.state_ns = now_.state_ns - base::ns_per_day + 1, .amount = 9}));
  for (size_t limit = 0; limit < 3; ++limit) meters_.meter(limit).check();
}

TEST_F(SubjectMetersTest, a_day_that_has_not_begun_has_no_charge) {
  EXPECT_FALSE(meters_.charge_of_day(rpd));
  EXPECT_TRUE(meters_.charges_of_ring(rpm, now_.state_ns).empty());
}

TEST_F(SubjectMetersTest, a_copy_is_as_of_its_moment) {
  meters_.charge(rpm, 3, now_.state_ns);
  meters_.charge(rpd, 3, now_.state_ns);
  const auto copy_after = [&](int64_t ns) {
    return SubjectMeters(meters_.shapes(), meters_.words(),
                         limiter::Moment{.ns = now_.state_ns + ns, .order = UINT64_MAX});
  };
  const int64_t minute_ns = 64 * base::ns_per_s;
  EXPECT_EQ(copy_after(0).charges_of_ring(rpm, now_.state_ns).size(), 1U);
  EXPECT_EQ(copy_after(minute_ns).charges_of_ring(rpm, now_.state_ns + minute_ns).size(), 0U);
  EXPECT_TRUE(copy_after(base::ns_per_day - 1).charge_of_day(rpd));
  EXPECT_FALSE(copy_after(base::ns_per_day).charge_of_day(rpd));
  EXPECT_EQ(meters_.charges_of_ring(rpm, now_.state_ns).size(), 1U) << "it is a copy";
}

}  // namespace
}  // namespace sluice::migration
