// Method: cuts of three shards in several orders.
#include "store/cut_collector.hpp"

#include <gtest/gtest.h>

namespace sluice::store {
namespace {

TEST(CutCollector, is_complete_when_every_shard_has_cut) {
  CutCollector collector(3);
  EXPECT_EQ(collector.epoch(), 0u);
  EXPECT_FALSE(collector.add({.epoch = 5, .shard = 2, .records_count = 2}));
  EXPECT_FALSE(collector.add({.epoch = 5, .shard = 0, .records_count = 0}));
  EXPECT_FALSE(collector.is_complete());
  EXPECT_TRUE(collector.add({.epoch = 5, .shard = 1, .records_count = 1}));
  const Batch batch = collector.batch();
  EXPECT_EQ(batch.epoch, 5u);
  ASSERT_EQ(batch.cuts.size(), 3u);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(batch.cuts[shard].shard, shard);
    EXPECT_EQ(batch.cuts[shard].records_count, shard);
  }
}

TEST(CutCollector, takes_the_next_epoch_when_it_was_cleared) {
  CutCollector collector(1);
  EXPECT_TRUE(collector.add({.epoch = 5, .shard = 0}));
  collector.clear();
  EXPECT_FALSE(collector.is_complete());
  EXPECT_EQ(collector.epoch(), 0u);
  EXPECT_TRUE(collector.add({.epoch = 9, .shard = 0}));
  EXPECT_EQ(collector.batch().epoch, 9u);
}

TEST(CutCollector, deletes_only_what_no_shard_needs) {
  CutCollector collector(2);
  collector.add({.epoch = 9, .shard = 0, .needed_from_epoch = 8});
  collector.add({.epoch = 9, .shard = 1, .needed_from_epoch = 0});
  EXPECT_EQ(collector.batch().delete_before_epoch, 0u);
  collector.clear();
  collector.add({.epoch = 10, .shard = 0, .needed_from_epoch = 8});
  collector.add({.epoch = 10, .shard = 1, .needed_from_epoch = 4});
  EXPECT_EQ(collector.batch().delete_before_epoch, 4u);
}

TEST(CutCollector, deletes_only_the_windows_that_no_shard_needs) {
  CutCollector collector(2);
  collector.add({.epoch = 9, .shard = 0, .needed_from_epoch = 2, .windows_needed_from_epoch = 8});
  collector.add({.epoch = 9, .shard = 1, .needed_from_epoch = 3, .windows_needed_from_epoch = 7});
  EXPECT_EQ(collector.batch().delete_before_epoch, 2u);
  EXPECT_EQ(collector.batch().delete_windows_before_epoch, 7u);
}

TEST(CutCollectorDeathTest, dies_of_cuts_that_must_not_be) {
  CutCollector collector(2);
  collector.add({.epoch = 5, .shard = 0});
  EXPECT_DEATH(collector.add({.epoch = 6, .shard = 1}), "epoch");
  EXPECT_DEATH(collector.add({.epoch = 5, .shard = 0}), "has_");
  EXPECT_DEATH(collector.add({.epoch = 5, .shard = 2}), "shard");
  EXPECT_DEATH(static_cast<void>(collector.batch()), "complete");
}

}  // namespace
}  // namespace sluice::store
