// Goal: both kinds of tasks share one bound, and a free task awaits nothing.
// Method: two pools over the same slots, filled alternately.
#include "server/task_pool.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

struct Task {
  std::optional<Asker> asker;
};

TEST(TaskPool, two_pools_share_their_slots) {
  TaskSlots slots(5);
  TaskPool<Task> queries(slots), batches(slots);
  std::vector<Task*> taken;
  while (queries.has_room()) {
    taken.push_back(&(taken.size() % 2 == 0 ? queries : batches).take({}));
  }
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_FALSE(batches.has_room());
  EXPECT_DEATH(batches.take({}), "has_room");
  queries.free(*taken[0]);
  EXPECT_TRUE(batches.has_room());
}

TEST(TaskPool, awaits_asker_until_its_task_is_free) {
  TaskSlots slots(5);
  TaskPool<Task> pool(slots);
  const Asker asker{.socket = {.index = 3, .generation = 1}, .id = 7};
  Task& task = pool.take(asker);
  pool.take({});
  EXPECT_TRUE(pool.awaits(asker));
  EXPECT_FALSE(pool.awaits({.socket = {.index = 3, .generation = 2}, .id = 7}));
  EXPECT_FALSE(pool.awaits({.socket = asker.socket, .id = 8}));
  pool.free(task);
  EXPECT_FALSE(pool.awaits(asker));
}

TEST(TaskPool, another_task_has_the_place_of_one_that_is_parked) {
  TaskSlots slots(2);
  TaskPool<Task> pool(slots, 1);
  const Asker asker{.socket = {.index = 3, .generation = 1}, .id = 7};
  Task& parked = pool.take(asker);
  Task& other = pool.take({});
  EXPECT_FALSE(pool.has_room());
  ASSERT_TRUE(pool.may_park());
  pool.park(parked);
  EXPECT_EQ(pool.parked_count(), 1U);
  EXPECT_FALSE(pool.may_park());
  EXPECT_DEATH(pool.park(other), "may_park");
  EXPECT_TRUE(pool.has_room());
  Task& third = pool.take({});
  EXPECT_NE(&third, &parked);
  EXPECT_NE(&third, &other);
  EXPECT_TRUE(pool.awaits(asker));
  pool.free_parked(parked);
  EXPECT_FALSE(pool.awaits(asker));
  EXPECT_FALSE(pool.has_room()) << "it had no place";
  EXPECT_EQ(pool.parked_count(), 0U);
  EXPECT_DEATH(pool.free_parked(parked), "parked_count");
  pool.free(third);
  EXPECT_EQ(&pool.take({}), &third);
}

TEST(TaskPool, parks_none_unless_it_may) {
  TaskSlots slots(2);
  EXPECT_FALSE(TaskPool<Task>(slots).may_park());
}

}  // namespace
}  // namespace sluice::server
