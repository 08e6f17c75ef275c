// Goal:   a subject is found by its name until it is idle and its place is needed, and takes on
//         another quota, or a reset, before it is used.
// Method: a table of eight subjects, filled and swept by hand.
#include "quota/subject_table.hpp"

#include <gtest/gtest.h>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class SubjectTableTest : public testing::Test {
 protected:
  ~SubjectTableTest() override { driver_.subjects.check_invariants(); }
  void fill() {
    for (int name = 0; name < 8; ++name) {
      driver_.use(driver_.make(numbered("m", name), {tpm(100)}), 1);
    }
  }

  TableDriver driver_;
  SubjectTable& subjects_ = driver_.subjects;
};

TEST_F(SubjectTableTest, finds_what_it_made_under_its_name) {
  const SubjectIndex made = driver_.make("m", {tpm(100)});
  EXPECT_EQ(driver_.find("m"), made);
  EXPECT_EQ(subjects_.name_of(made), "m");
  EXPECT_EQ(driver_.find("n"), no_subject);
}

TEST_F(SubjectTableTest, forgets_an_idle_one_to_make_room) {
  fill();
  EXPECT_EQ(driver_.make("another", {tpm(100)}), no_subject);
  driver_.advance_ms(60'000);  // all windows have ended
  EXPECT_NE(driver_.make("another", {tpm(100)}), no_subject);
  EXPECT_GT(driver_.statistics.subjects_forgotten, 0U);
}

TEST_F(SubjectTableTest, keeps_the_subjects_of_the_call) {
  fill();
  driver_.advance_ms(60'000);
  LimitedSubjects kept;
  for (int name = 0; name < 8; ++name) {
    kept.push_back({.index = driver_.find(numbered("m", name))});
  }
  EXPECT_EQ(driver_.make("another", {tpm(100)}, kept), no_subject);
}

TEST_F(SubjectTableTest, is_idle_only_when_nothing_refers_to_it) {
  const SubjectIndex index = driver_.make("m", {tpm(100)});
  subjects_[index].held = 1;
  EXPECT_FALSE(subjects_.forget_if_idle(index));
  subjects_[index].held = 0;
  subjects_[index].configured = true;
  EXPECT_FALSE(subjects_.forget_if_idle(index));
  subjects_[index].configured = false;
  subjects_.to_serve().add(index);
  EXPECT_FALSE(subjects_.forget_if_idle(index));
  subjects_.to_serve().take();
  EXPECT_TRUE(subjects_.forget_if_idle(index));
  EXPECT_EQ(driver_.find("m"), no_subject);
  EXPECT_EQ(driver_.statistics.subjects_forgotten, 1U);
}

TEST_F(SubjectTableTest, another_quota_keeps_the_usage_of_a_limit_that_goes_on) {
  driver_.adopt({TableDriver::rule("m", {tpm(100)})});
  const SubjectIndex index =
      subjects_.make(subjects_.hash("m"), "m", driver_.book.quota_of("m"), no_limited_subjects);
  driver_.use(index, 30);
  driver_.adopt({TableDriver::rule("m", {tpm(50)})});
  EXPECT_EQ(subjects_.current(index).quota->shapes[0].amount, 50U);
  EXPECT_EQ(driver_.used(index), 30U);
  driver_.adopt({TableDriver::rule("m", {rpm(50)})});
  EXPECT_EQ(driver_.used(index), 0U);
  driver_.adopt({});
  EXPECT_EQ(subjects_.current(index).quota, nullptr);
}

TEST_F(SubjectTableTest, a_book_leaves_quotas_that_were_put_as_they_are) {
  const SubjectIndex index = driver_.make("m", {tpm(100)});
  driver_.adopt({TableDriver::rule("m", {tpm(50)})});
  EXPECT_EQ(subjects_.current(index).quota->shapes[0].amount, 100U);
}

TEST_F(SubjectTableTest, a_reset_of_all_reaches_each_when_it_is_used) {
  const SubjectIndex index = driver_.make("m", {tpm(100)});
  driver_.use(index, 30);
  driver_.use(index, 20, true);
  const uint64_t order = driver_.clock.order();
  subjects_.reset_all();
  driver_.clock.next_call();
  EXPECT_EQ(driver_.used(index), 20U);  // what is open stays
  EXPECT_EQ(subjects_[index].reset_order, order);
}

TEST_F(SubjectTableTest, a_queue_is_to_be_served_when_its_subject_changes) {
  const SubjectIndex index = driver_.make("m", {tpm(100)});
  subjects_[index].waiting = 1;
  subjects_.current(index);
  EXPECT_TRUE(subjects_.to_serve().empty());
  subjects_.reset_all();
  subjects_.current(index);
  EXPECT_EQ(subjects_.to_serve().take(), index);
  subjects_[index].waiting = 0;
}

TEST_F(SubjectTableTest, an_absent_subject_looks_as_if_it_were_made) {
  const CompiledQuota* const quota = driver_.book.classes().hold(quota_of({tpm(100)}));
  for (int time = 0; time < 2; ++time) {
    LimitedSubject each{.place = 3};
    subjects_.add_absent(*quota, each);
    limiter::Meter meter(quota->shapes[0], each.words);
    EXPECT_EQ(each.index, no_subject);
    EXPECT_EQ(meter.used(), 0U);
    meter.charge(100, true, driver_.clock.moment());
  }
  driver_.book.classes().drop_reference(quota);
}

}  // namespace
}  // namespace sluice::quota
