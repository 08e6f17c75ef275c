// A pool hands out at most its capacity, reuses freed objects, and destroys those that it still
// holds. Method: an object that counts its lives.
#include "base/object_pool.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice::base {
namespace {

struct Counted {
  explicit Counted(int& count, int with = 0) : alive(count), value(with) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int& alive;
  int value;
};

using Pool = ObjectPool<Counted>;

TEST(ObjectPool, hands_out_as_many_as_it_holds) {
  int alive = 0;
  Pool pool(3, "test");
  std::set<Pool::Index> indexes;
  for (int count = 0; count < 3; ++count) indexes.insert(pool.take(alive));
  EXPECT_EQ(indexes, (std::set<Pool::Index>{0, 1, 2}));
  EXPECT_EQ(pool.take(alive), Pool::none);
  EXPECT_EQ(alive, 3);
  EXPECT_EQ(pool.used(), 3u);
}

TEST(ObjectPool, reuses_the_object_freed_last) {
  int alive = 0;
  Pool pool(4, "test");
  for (int count = 0; count < 4; ++count) pool.take(alive);
  pool.free(1);
  pool.free(3);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(pool.take(alive, 7), 3u);
  EXPECT_EQ(pool.take(alive, 8), 1u);
  EXPECT_EQ(pool[3].value, 7);
  EXPECT_EQ(pool[1].value, 8);
}

TEST(ObjectPool, knows_which_indexes_are_in_use) {
  int alive = 0;
  Pool pool(4, "test");
  pool.take(alive);
  pool.take(alive);
  pool.free(0);
  EXPECT_FALSE(pool.holds(0));
  EXPECT_TRUE(pool.holds(1));
  EXPECT_FALSE(pool.holds(2));
  EXPECT_FALSE(pool.holds(Pool::none));
  EXPECT_EQ(pool.index_end(), 2u);
}

TEST(ObjectPool, destroys_the_objects_it_still_holds) {
  int alive = 0;
  {
    Pool pool(4, "test");
    for (int count = 0; count < 4; ++count) pool.take(alive);
    pool.free(2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(ObjectPool, of_no_capacity_is_always_full) {
  int alive = 0;
  Pool pool(0, "test");
  EXPECT_EQ(pool.take(alive), Pool::none);
}

TEST(ObjectPoolDeathTest, refuses_to_free_an_object_twice) {
  int alive = 0;
  Pool pool(2, "test");
  pool.take(alive);
  pool.free(0);
  EXPECT_DEATH(pool.free(0), "holds\\(index\\)");
}

}  // namespace
}  // namespace sluice::base
