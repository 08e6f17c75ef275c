// Goal: an id leads to its reservation while there is one, then to the record of its end, until
// its time is over or its record is needed.
// Method: a book for two open reservations, which has five records.
#include "quota/id_book.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace sluice::quota {
namespace {

class IdBookTest : public testing::Test {
 protected:
  // An ended id that is remembered until then.
  uint64_t ended_until(int64_t forgotten_ms) {
    const uint64_t id = book_.assign(0, 0);
    book_.record_of(id) = {.id = id, .forgotten_ms = forgotten_ms};
    book_.end(id);
    return id;
  }

  IdBook book_{2, 3, 42};
};

TEST_F(IdBookTest, leads_from_an_id_to_its_reservation) {
  const uint64_t id = book_.assign(7, 0);
  ASSERT_NE(book_.find(id, 0), nullptr);
  EXPECT_EQ(book_.find(id, 0)->reservation, 7U);
  EXPECT_EQ(id >> 56, 3U);  // the shard
}

TEST_F(IdBookTest, knows_no_id_that_it_did_not_give) {
  const uint64_t id = book_.assign(7, 0);
  EXPECT_EQ(book_.find(id ^ 1, 0), nullptr);                    // another nonce
  EXPECT_EQ(book_.find(id ^ (uint64_t{1} << 32), 0), nullptr);  // another place
  EXPECT_NE(IdBook(2, 3, 43).assign(7, 0), id);                 // another start
}

TEST_F(IdBookTest, remembers_the_end_until_its_time_is_over) {
  const uint64_t id = ended_until(100);
  ASSERT_NE(book_.find(id, 99), nullptr);
  EXPECT_EQ(book_.find(id, 99)->reservation, IdRecord::ended);
  EXPECT_EQ(book_.find(id, 100), nullptr);
}

TEST_F(IdBookTest, uses_a_record_again_after_its_time) {
  const uint64_t first = ended_until(100);
  const uint64_t next = book_.assign(1, 100);
  EXPECT_EQ(first >> 32, next >> 32);  // the same place
  EXPECT_NE(first, next);
  EXPECT_EQ(book_.find(first, 100), nullptr);
}

TEST_F(IdBookTest, forgets_the_one_that_ended_first_when_all_records_are_used) {
  std::vector<uint64_t> ids;
  for (int id = 0; id < 5; ++id) ids.push_back(ended_until(1'000));
  book_.assign(1, 0);
  EXPECT_EQ(book_.find(ids[0], 0), nullptr);
  for (int id = 1; id < 5; ++id) EXPECT_NE(book_.find(ids[id], 0), nullptr);
}

TEST_F(IdBookTest, never_gives_an_id_twice) {
  std::set<uint64_t> ids;
  for (int id = 0; id < 1'000; ++id) EXPECT_TRUE(ids.insert(ended_until(1'000)).second);
}

}  // namespace
}  // namespace sluice::quota
