// Goal: every subject that was added is taken once, in the order of adding.
// Method: lists by hand, of none, of one that is added twice, and of several.
#include "quota/serve_list.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice::quota {
namespace {

class ServeListTest : public testing::Test {
 protected:
  ServeListTest() {
    for (SubjectIndex& index : made_) index = subjects_.take();
  }
  ~ServeListTest() override { list_.check_invariants(); }

  base::ObjectPool<Subject> subjects_{4, "test"};
  std::array<SubjectIndex, 4> made_{};
  ServeList list_{subjects_};
};

TEST_F(ServeListTest, is_empty_until_something_is_added) {
  EXPECT_TRUE(list_.empty());
  list_.add(made_[1]);
  EXPECT_FALSE(list_.empty());
  EXPECT_EQ(list_.take(), made_[1]);
  EXPECT_TRUE(list_.empty());
}

TEST_F(ServeListTest, returns_all_in_the_order_in_which_they_were_added) {
  for (const int at : {2, 0, 3, 1}) list_.add(made_[at]);
  list_.check_invariants();
  for (const int at : {2, 0, 3, 1}) EXPECT_EQ(list_.take(), made_[at]);
}

TEST_F(ServeListTest, has_each_once_at_its_first_place) {
  list_.add(made_[0]);
  list_.add(made_[1]);
  list_.add(made_[0]);
  EXPECT_EQ(list_.take(), made_[0]);
  list_.add(made_[0]);  // taken, it may be added again: behind the others
  EXPECT_EQ(list_.take(), made_[1]);
  EXPECT_EQ(list_.take(), made_[0]);
  EXPECT_TRUE(list_.empty());
}

}  // namespace
}  // namespace sluice::quota
