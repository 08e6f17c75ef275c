// Goal:   every waiter that a new quota can never admit is found, once, wherever it stands; a long
//         queue takes several steps, one queue at a time.
// Method: queues by hand, and steps of three checks.
#include "quota/queue_scan.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::WaiterId;
using Found = std::vector<WaiterId>;

class QueueScanTest : public testing::Test {
 protected:
  QueueScanTest() : a_(driver_.make("a", {tpm(100)})), b_(driver_.make("b", {tpm(100)})) {}
  ~QueueScanTest() override { driver_.queues.check_invariants(); }

  WaiterId join(SubjectIndex subject, uint64_t tokens, uint64_t arrival) {
    const api::QuotaCall call;
    return driver_.queues.join(TableDriver::request(subject, tokens),
                               {.call = call, .arrival = {.ns = 1, .number = arrival}});
  }
  WaiterId join(SubjectIndex subject, uint64_t tokens) {
    return join(subject, tokens, ++arrivals_);
  }
  void put(SubjectIndex subject, const api::Quota& quota) {
    const CompiledQuota* const held = driver_.book.classes().hold(quota);
    driver_.subjects.change_quota(subject, {held, api::QuotaSource::run_time});
    driver_.book.classes().drop_reference(held);
  }
  void put(SubjectIndex subject, uint64_t amount) { put(subject, quota_of({tpm(amount)})); }
  // True: it is done. Those that it has found leave.
  bool step(SubjectIndex subject) {
    budget_.refill();
    found_.clear();
    return scan_.look_through(subject, [this](WaiterId waiter) {
      found_.push_back(waiter);
      driver_.queues.leave(waiter);
    });
  }

  TableDriver driver_{{.subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 20,
                       .name_seed = 42,
                       .id_seed = 42}};
  const SubjectIndex a_;
  const SubjectIndex b_;
  WorkBudget budget_{6};
  QueueScan scan_{driver_.clock, budget_, driver_.book, driver_.subjects};
  Found found_;
  uint64_t arrivals_ = 10;
};

TEST_F(QueueScanTest, finds_those_that_the_new_quota_can_never_admit) {
  const WaiterId first = join(a_, 60);
  join(a_, 40);
  const WaiterId last = join(a_, 41);
  put(a_, 40);
  EXPECT_TRUE(step(a_));
  EXPECT_EQ(found_, (Found{first, last}));
}

TEST_F(QueueScanTest, looks_only_once) {
  join(a_, 60);
  put(a_, 40);
  step(a_);
  join(a_, 60);
  EXPECT_TRUE(step(a_));
  EXPECT_EQ(found_, Found{});
}

TEST_F(QueueScanTest, looks_through_no_queue_that_did_not_become_stricter) {
  join(a_, 60);
  put(a_, 101);
  EXPECT_FALSE(driver_.subjects[a_].to_scan);
  put(a_, quota_of({with(tpm(0), api::Ceiling::unlimited)}));
  EXPECT_FALSE(driver_.subjects[a_].to_scan);
  put(b_, 1);
  EXPECT_FALSE(driver_.subjects[b_].to_scan) << "nobody waits";
}

TEST_F(QueueScanTest, goes_on_in_later_steps_where_it_has_stopped) {
  for (int waiter = 0; waiter < 3; ++waiter) join(a_, 40);
  const WaiterId fourth = join(a_, 60);
  put(a_, 40);
  EXPECT_FALSE(step(a_));
  EXPECT_TRUE(scan_.is_under_way(a_));
  EXPECT_EQ(found_, Found{});
  EXPECT_TRUE(step(a_));
  EXPECT_EQ(found_, Found{fourth});
  EXPECT_FALSE(scan_.is_under_way(a_));
}

TEST_F(QueueScanTest, another_queue_waits_until_this_one_is_done) {
  for (int waiter = 0; waiter < 4; ++waiter) join(a_, 40);
  const WaiterId other = join(b_, 60);
  put(a_, 40);
  put(b_, 40);
  EXPECT_FALSE(step(a_));
  EXPECT_FALSE(step(b_));
  EXPECT_TRUE(driver_.subjects[b_].to_scan);
  EXPECT_TRUE(step(a_));
  EXPECT_TRUE(step(b_));
  EXPECT_EQ(found_, Found{other});
}

TEST_F(QueueScanTest, a_queue_that_is_not_to_be_looked_through_need_not_wait) {
  for (int waiter = 0; waiter < 4; ++waiter) join(a_, 40);
  put(a_, 40);
  EXPECT_FALSE(step(a_));
  EXPECT_TRUE(step(b_));
}

TEST_F(QueueScanTest, begins_anew_when_the_quota_changes_again) {
  const WaiterId first = join(a_, 35);
  for (int waiter = 0; waiter < 3; ++waiter) join(a_, 10);
  put(a_, 40);
  EXPECT_FALSE(step(a_));
  put(a_, 30);
  EXPECT_FALSE(step(a_));
  EXPECT_EQ(found_, Found{first});
  EXPECT_TRUE(step(a_));
}

// Those that come from another shard may have arrived earlier; they are decided by the new quota.
TEST_F(QueueScanTest, passes_over_those_that_join_ahead_meanwhile) {
  for (int waiter = 0; waiter < 4; ++waiter) join(a_, 40);
  put(a_, 40);
  EXPECT_FALSE(step(a_));
  join(a_, 10, 1);
  EXPECT_TRUE(step(a_));
  EXPECT_EQ(found_, Found{});
}

TEST_F(QueueScanTest, a_removed_quota_rules_out_nothing_unless_unknown_subjects_are_denied) {
  const WaiterId waiter = join(a_, 60);
  driver_.subjects.change_quota(a_, {});
  EXPECT_FALSE(driver_.subjects[a_].to_scan);
  policy::QuotaBook denying({.rules = {}, .unknown = policy::UnknownSubjects::deny});
  driver_.book.adopt(denying);
  put(a_, 100);
  driver_.subjects.change_quota(a_, {});
  EXPECT_TRUE(step(a_));
  EXPECT_EQ(found_, Found{waiter});
}

}  // namespace
}  // namespace sluice::quota
