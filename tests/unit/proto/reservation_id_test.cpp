// Goal: an id leads to the shard of its reservation's first subject, with any number of shards.
// Method: the routes of hashes at, just before and just behind each border between two shards, and
//         of random ones, against the shards of the hashes themselves.
#include "proto/reservation_id.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/limits.hpp"
#include "proto/key_hash.hpp"

namespace sluice::proto {
namespace {

void expect_same_shards(uint64_t hash) {
  const uint64_t id = reservation_id::make(route_of_hash(hash), false, 1);
  for (uint32_t shards = 1; shards <= routed_shards_max; ++shards) {
    ASSERT_EQ(reservation_shard(id, shards), owner_shard(hash, shards)) << hash << " " << shards;
  }
}

static_assert(limits::shards_max <= routed_shards_max);

TEST(ReservationId, leads_to_the_shard_of_the_hash_at_every_border) {
  for (uint64_t shards = 1; shards <= routed_shards_max; ++shards) {
    for (uint64_t shard = 0; shard < shards; ++shard) {
      const uint64_t border = ((shard << 32) + shards - 1) / shards << 32;
      expect_same_shards(border);
      expect_same_shards(border - 1);
      expect_same_shards(border + (uint64_t{1} << 32));
    }
  }
}

TEST(ReservationId, leads_to_the_shard_of_any_hash) {
  std::mt19937_64 random(7);
  for (int drawn = 0; drawn < 20'000; ++drawn) expect_same_shards(random());
}

TEST(ReservationId, keeps_its_parts_apart) {
  constexpr uint64_t id = reservation_id::make(0xABCD, true, ~uint64_t{0});
  EXPECT_EQ(id, 0x0002'AF37'FFFF'FFFFU);  // the slot of one node is 0
  EXPECT_EQ(reservation_id::route_of(id), 0xABCD);
  EXPECT_TRUE(reservation_id::has_several_shards(id));
  EXPECT_FALSE(reservation_id::has_several_shards(reservation_id::make(0xFFFF, false, 5)));
  EXPECT_EQ(reservation_id::slot_of(id), reservation_id::no_slot);
}

TEST(ReservationId, names_its_node) {
  constexpr uint64_t last = reservation_id::make(0xABCD, true, 7, reservation_id::slots_max - 1);
  EXPECT_EQ(last, 0xFFFE'AF36'0000'0007U);
  EXPECT_EQ(reservation_id::slot_of(last), reservation_id::slots_max - 1);
  EXPECT_EQ(reservation_id::route_of(last), 0xABCD);
  EXPECT_TRUE(reservation_id::has_several_shards(last));
  EXPECT_EQ(reservation_id::slot_of(reservation_id::make(0xFFFF, true, ~uint64_t{0}, 1)), 1);
  EXPECT_EQ(reservation_id::slot_of_node(limits::instances_max - 1), limits::instances_max);
  static_assert(limits::instances_max < reservation_id::slots_max);
}

// tests/clients/python/quota_values_test.py has the same.
TEST(ReservationId, shards_of_ids) {
  EXPECT_EQ(reservation_shard(0x0002'AF37'FFFF'FFFF, 1), 0U);
  EXPECT_EQ(reservation_shard(0x0002'AF37'FFFF'FFFF, 3), 2U);
  EXPECT_EQ(reservation_shard(0x0001'5555'0000'0001, 3), 0U);
  EXPECT_EQ(reservation_shard(0x0001'5558'0000'0001, 3), 1U);
  EXPECT_EQ(reservation_shard(~uint64_t{0}, 256), 255U);
}

}  // namespace
}  // namespace sluice::proto
