// Goal: an id leads to its reservation while there is one, then to the record of its end, until
// its time is over or its record is needed.
// Method: a book for three reservations; their ids are kept beside it.
#include "quota/id_book.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace sluice::quota {
namespace {

constexpr uint32_t reservations_max = 3;

class IdBookTest : public testing::Test {
 protected:
  uint64_t assign(uint32_t reservation, uint16_t route = 0xABCD) {
    ids_[reservation] = book_.assign(reservation, route, false);
    return ids_[reservation];
  }
  uint32_t find(uint64_t id) const {
    return book_.find(id, [this](uint32_t reservation) { return ids_[reservation]; });
  }
  // An ended id that is remembered until then.
  uint64_t ended_until(int64_t forgotten_ms) {
    const uint64_t id = assign(0);
    book_.end(id, 0).forgotten_ms = forgotten_ms;
    return id;
  }

  IdBook book_{reservations_max, 42};
  std::array<uint64_t, reservations_max> ids_{};
};

TEST_F(IdBookTest, leads_from_an_id_to_its_reservation) {
  const uint64_t first = assign(0), last = assign(2);
  EXPECT_EQ(find(first), 0U);
  EXPECT_EQ(find(last), 2U);
  EXPECT_EQ(book_.find_end(first, 0), nullptr);
  EXPECT_EQ(proto::reservation_id::route_of(first), 0xABCD);
  EXPECT_FALSE(proto::reservation_id::has_several_shards(first));
  EXPECT_TRUE(proto::reservation_id::has_several_shards(book_.assign(1, 5, true)));
}

TEST_F(IdBookTest, names_the_node) {
  EXPECT_EQ(proto::reservation_id::slot_of(assign(0)), proto::reservation_id::no_slot);
  IdBook of_node(reservations_max, 42, 1'024);
  const uint64_t id = of_node.assign(1, 0xABCD, false);
  EXPECT_EQ(proto::reservation_id::slot_of(id), 1'024);
  EXPECT_EQ(of_node.find(id, [id](uint32_t) { return id; }), 1U);
}

TEST_F(IdBookTest, knows_no_id_that_it_did_not_give) {
  const uint64_t id = assign(1);
  for (int bit = 0; bit < 64; ++bit) EXPECT_EQ(find(id ^ (uint64_t{1} << bit)), IdBook::none);
  EXPECT_NE(IdBook(reservations_max, 43).assign(1, 0xABCD, false), id);  // another start
}

TEST_F(IdBookTest, remembers_the_end_until_its_time_is_over) {
  const uint64_t id = ended_until(100);
  EXPECT_EQ(find(id), IdBook::none);
  ASSERT_NE(book_.find_end(id, 99), nullptr);
  EXPECT_EQ(book_.find_end(id, 99)->id, id);
  EXPECT_EQ(book_.find_end(id, 100), nullptr);
  EXPECT_EQ(book_.find_end(id ^ (uint64_t{1} << 60), 99), nullptr);
}

TEST_F(IdBookTest, forgets_the_end_that_came_first_when_all_records_are_used) {
  std::vector<uint64_t> ids;
  for (uint32_t ended = 0; ended < reservations_max; ++ended) ids.push_back(ended_until(1'000));
  for (const uint64_t id : ids) EXPECT_NE(book_.find_end(id, 0), nullptr);
  ids.push_back(ended_until(1'000));
  EXPECT_EQ(book_.find_end(ids[0], 0), nullptr);
  for (size_t later = 1; later < ids.size(); ++later) {
    EXPECT_NE(book_.find_end(ids[later], 0), nullptr);
  }
}

TEST_F(IdBookTest, forgets_a_reservation_without_a_record) {
  const uint64_t kept = ended_until(1'000);
  const uint64_t id = assign(1);
  book_.forget(id, 1);
  EXPECT_EQ(find(id), IdBook::none);
  EXPECT_EQ(book_.find_end(id, 0), nullptr);
  EXPECT_NE(book_.find_end(kept, 0), nullptr);
}

TEST_F(IdBookTest, finds_the_ends_that_have_a_record) {
  EXPECT_EQ(book_.next_recorded(0), IdBook::none);
  for (const uint32_t cut : {7U, 0U, 8U}) {
    IdRecord& end = book_.end(assign(0), 0);
    book_.set_recorded(end, cut);
  }
  EXPECT_EQ(book_.next_recorded(0), 0U);
  EXPECT_EQ(book_.next_recorded(1), 2U);
  EXPECT_EQ(book_.end_at(2).recorded_in, 8U);
  EXPECT_EQ(book_.next_recorded(3), IdBook::none);
  book_.set_recorded(book_.end(assign(0), 0), 0);  // in the place of the first
  EXPECT_EQ(book_.next_recorded(0), 2U);
}

TEST_F(IdBookTest, forgets_restored_ends_in_the_order_of_the_ends) {
  const auto restore = [this](uint64_t id) {
    return book_.restore_end({.id = id, .recorded_in = 1, .forgotten_ms = 100});
  };
  EXPECT_TRUE(restore(0x10003));  // the last one
  EXPECT_TRUE(restore(0x10002));
  EXPECT_NE(book_.find_end(0x10003, 99), nullptr);
  ended_until(100);  // takes the place that is left
  EXPECT_NE(book_.find_end(0x10002, 99), nullptr);
  book_.set_recorded(book_.end(assign(0), 0), 0);
  EXPECT_EQ(book_.find_end(0x10002, 99), nullptr);
  EXPECT_NE(book_.find_end(0x10003, 99), nullptr);
  EXPECT_EQ(book_.next_recorded(0), 2U);
}

TEST_F(IdBookTest, restores_no_more_ends_than_there_are_places) {
  for (uint64_t id = 1; id <= reservations_max; ++id) {
    EXPECT_TRUE(book_.restore_end({.id = id, .forgotten_ms = 100}));
  }
  EXPECT_FALSE(book_.restore_end({.id = 9, .forgotten_ms = 100}));
}

TEST_F(IdBookTest, never_gives_an_id_twice) {
  std::set<uint64_t> ids;
  for (int id = 0; id < 20'000; ++id) EXPECT_TRUE(ids.insert(ended_until(1'000)).second);
}

}  // namespace
}  // namespace sluice::quota
