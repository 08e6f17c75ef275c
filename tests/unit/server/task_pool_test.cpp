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

}  // namespace
}  // namespace sluice::server
