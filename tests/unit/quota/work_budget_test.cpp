// Goal: a step does a bounded amount of work, and finishes what it has begun.
// Method: spending by hand, up to the last unit and beyond it.
#include "quota/work_budget.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(WorkBudget, allows_work_until_it_is_spent) {
  WorkBudget budget(5);
  EXPECT_TRUE(budget.may_go_on());
  budget.spend(3);  // three subjects, and one for the waiter itself
  EXPECT_TRUE(budget.may_go_on());
  budget.spend(0);
  EXPECT_FALSE(budget.may_go_on());
}

TEST(WorkBudget, each_step_has_all_of_it_however_far_the_last_overdrew) {
  WorkBudget budget(2);
  budget.spend(8);
  EXPECT_FALSE(budget.may_go_on());
  budget.refill();
  EXPECT_TRUE(budget.may_go_on());
  budget.spend(1);
  EXPECT_FALSE(budget.may_go_on());
}

}  // namespace
}  // namespace sluice::quota
