// Goal:   after a book was adopted every name of it that belongs to this shard has its subject, and
//         names of the last book are no longer kept; each step does a bounded part of it.
// Method: a table and books by hand, with steps of one unit of work and of many.
#include "quota/book_adoption.hpp"

#include <gtest/gtest.h>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class BookAdoptionTest : public testing::Test {
 protected:
  void adopt(std::vector<policy::QuotaRule> rules) {
    driver_.adopt(std::move(rules));
    adoption_.begin();
  }
  // Steps until the end.
  int finish() {
    int steps = 0;
    for (; adoption_.is_under_way(); ++steps) adoption_.run_slice();
    driver_.subjects.check_invariants();
    return steps;
  }

  TableDriver driver_{
      {.subjects_max = 4, .waiters_max = 4, .name_seed = 42, .id_seed = 42, .adopt_work = 1}};
  BookAdoption adoption_{driver_.options, driver_.book, driver_.subjects};
};

TEST_F(BookAdoptionTest, makes_a_subject_for_every_name) {
  adopt({TableDriver::rule("a", {tpm(1)}), TableDriver::rule("b", {tpm(2)})});
  EXPECT_TRUE(adoption_.is_under_way());
  EXPECT_GT(finish(), 2);
  for (const std::string name : {"a", "b"}) {
    ASSERT_NE(driver_.find(name), no_subject);
    EXPECT_TRUE(driver_.subjects[driver_.find(name)].configured);
  }
}

TEST_F(BookAdoptionTest, a_name_that_is_gone_may_be_forgotten_and_a_put_quota_stays) {
  adopt({TableDriver::rule("a", {tpm(1)})});
  finish();
  const SubjectIndex put = driver_.make("b", {tpm(1)});
  driver_.subjects[put].configured = true;
  adopt({});
  finish();
  EXPECT_FALSE(driver_.subjects[driver_.find("a")].configured);
  EXPECT_TRUE(driver_.subjects[put].configured);
}

TEST_F(BookAdoptionTest, ends_when_there_is_no_room_for_all_names) {
  std::vector<policy::QuotaRule> rules;
  for (int name = 0; name < 9; ++name) {
    rules.push_back(TableDriver::rule(numbered("m", name), {tpm(1)}));
  }
  adopt(std::move(rules));
  finish();
  EXPECT_TRUE(driver_.subjects.is_full());
}

TEST_F(BookAdoptionTest, begins_anew_with_a_further_book) {
  adopt({TableDriver::rule("a", {tpm(1)}), TableDriver::rule("b", {tpm(1)})});
  adoption_.run_slice();
  adopt({TableDriver::rule("c", {tpm(1)})});
  finish();
  EXPECT_NE(driver_.find("c"), no_subject);
  EXPECT_EQ(driver_.find("b"), no_subject);
}

TEST(BookAdoptionOfAnotherShard, makes_no_subject_of_its_names) {
  // Of two shards each has some of the names, and together they have all.
  int made = 0;
  for (const uint32_t shard : {0U, 1U}) {
    TableDriver driver({.shard = shard, .shards = 2, .subjects_max = 16, .waiters_max = 4});
    BookAdoption adoption(driver.options, driver.book, driver.subjects);
    std::vector<policy::QuotaRule> rules;
    for (int name = 0; name < 10; ++name) {
      rules.push_back(TableDriver::rule(numbered("m", name), {tpm(1)}));
    }
    driver.adopt(std::move(rules));
    adoption.begin();
    while (adoption.is_under_way()) adoption.run_slice();
    EXPECT_LT(driver.subjects.pool().used(), 10U);
    made += static_cast<int>(driver.subjects.pool().used());
  }
  EXPECT_EQ(made, 10);
}

}  // namespace
}  // namespace sluice::quota
