// Goal: a query reaches the shards that it is about, comes back, and leaves room for another, also
//       when its session is gone.
// Method: three shards in one thread; the key that is asked for belongs to the second.
#include "server/shard_queries.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/server/task_side.hpp"

namespace sluice::server {
namespace {

class ShardQueriesTest : public ::testing::Test {
 protected:
  void turn_all() {
    for (TaskSide* side : {&first_, &second_, &third_}) side->turn();
  }
  std::string key_of(uint32_t shard) {
    std::string key;
    for (int number = 0; key.empty() || first_.exchange.owner_of(key).shard != shard; ++number) {
      key = "key" + std::to_string(number);
    }
    return key;
  }

  Crew crew_{{.cores = 3}};
  TaskSide first_{crew_, 0};
  TaskSide second_{crew_, 1};
  TaskSide third_{crew_, 2};
};

TEST_F(ShardQueriesTest, asks_the_shard_that_owns_the_key_and_waits_for_it) {
  first_.queries.inspect(first_.stranger, 7, key_of(1));
  EXPECT_TRUE(first_.awaits(7));
  turn_all();
  EXPECT_TRUE(first_.awaits(7));
  turn_all();
  EXPECT_FALSE(first_.awaits(7));
  EXPECT_TRUE(first_.context.room_made);
}

TEST_F(ShardQueriesTest, answers_at_once_what_it_owns_itself) {
  first_.queries.inspect(first_.stranger, 7, key_of(0));
  EXPECT_FALSE(first_.awaits(7));
  EXPECT_TRUE(first_.exchange.idle());
}

TEST_F(ShardQueriesTest, a_census_goes_from_shard_to_shard) {
  first_.queries.metrics(first_.stranger, 1);
  first_.queries.count_keys(first_.stranger, 2);
  first_.queries.top(first_.stranger, 3, 10);
  for (int turn = 0; turn < 5; ++turn) turn_all();
  EXPECT_EQ(first_.censuses, 3);
  EXPECT_EQ(second_.censuses, 3);
  EXPECT_EQ(third_.censuses, 3);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_FALSE(first_.awaits(id));
}

TEST_F(ShardQueriesTest, a_cursor_of_no_shard_leads_to_the_end) {
  first_.queries.page(first_.stranger, 1, UINT64_MAX, 10);
  for (int turn = 0; turn < 3; ++turn) turn_all();
  EXPECT_FALSE(first_.awaits(1));
}

TEST_F(ShardQueriesTest, there_are_as_many_as_there_are_slots) {
  const std::string key = key_of(1);
  for (uint64_t id = 0; id < shard_tasks_max; ++id) {
    ASSERT_TRUE(first_.slots.has_room());
    first_.queries.inspect(first_.stranger, id, key);
  }
  EXPECT_FALSE(first_.slots.has_room());
  turn_all();
  turn_all();
  EXPECT_TRUE(first_.slots.has_room());
}

}  // namespace
}  // namespace sluice::server
