// Entries are grouped by owner, each group in the order of the request.
#include "route/owner_groups.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "base/limits.hpp"

namespace sluice::route {
namespace {

using Places = std::vector<uint16_t>;

void group(OwnerGroups& groups, const std::vector<api::ShardId>& owners) {
  std::ranges::copy(owners, groups.owners().begin());
  groups.group(static_cast<uint32_t>(owners.size()));
}

Places places_of(const OwnerGroups& groups, api::ShardId shard) {
  const auto places = groups.places_of(shard);
  return {places.begin(), places.end()};
}

TEST(OwnerGroups, entries_of_two_shards_are_parted) {
  OwnerGroups groups(2, 1);
  group(groups, {0, 1, 1, 0, 1});
  EXPECT_EQ(places_of(groups, 0), (Places{0, 3}));
  EXPECT_EQ(places_of(groups, 1), (Places{1, 2, 4}));
  EXPECT_EQ(groups.owning().size(), 2U);
  EXPECT_FALSE(groups.is_one());
  EXPECT_EQ(groups.other_places().size(), 2U);
}

TEST(OwnerGroups, one_owner_of_all_is_known) {
  OwnerGroups groups(3, 1);
  group(groups, {2, 2});
  EXPECT_TRUE(groups.is_one());
  EXPECT_FALSE(groups.is_all_here());
  EXPECT_EQ(places_of(groups, 2), (Places{0, 1}));
  group(groups, {1, 1, 1});
  EXPECT_TRUE(groups.is_all_here());
  EXPECT_EQ(groups.other_places().size(), 0U);
  groups.group_as_one(2, 7);
  EXPECT_TRUE(groups.is_one());
  EXPECT_EQ(groups.share_of(2).entries_count, 7U);
  EXPECT_EQ(groups.share_of(1).entries_count, 0U);
}

TEST(OwnerGroups, no_entries_have_no_owner) {
  OwnerGroups groups(2, 0);
  group(groups, {0, 1});
  group(groups, {});
  EXPECT_TRUE(groups.owning().empty());
  EXPECT_FALSE(groups.is_all_here());
}

// Against a list for each shard.
TEST(OwnerGroups, any_entries_are_grouped_by_owner) {
  std::mt19937 random(7);
  for (const uint32_t shards_count : {2U, 3U, 8U, 256U}) {
    OwnerGroups groups(shards_count, static_cast<api::ShardId>(shards_count / 2));
    for (const size_t count :
         {size_t{1}, size_t{5}, size_t{300}, size_t{limits::frame_entries_max}}) {
      std::vector<api::ShardId> owners(count);
      std::map<api::ShardId, Places> expected;
      for (size_t place = 0; place < count; ++place) {
        owners[place] = static_cast<api::ShardId>(random() % shards_count);
        expected[owners[place]].push_back(static_cast<uint16_t>(place));
      }
      group(groups, owners);
      EXPECT_EQ(groups.owning().size(), expected.size());
      size_t first = 0;  // of the others' list, which follows owning()
      for (const api::ShardId shard : groups.owning()) {
        EXPECT_EQ(places_of(groups, shard), expected[shard]);
        if (shard == shards_count / 2) continue;
        EXPECT_EQ(groups.share_of(shard).first, first);
        first += expected[shard].size();
      }
      EXPECT_EQ(groups.other_places().size(), first);
    }
  }
}

}  // namespace
}  // namespace sluice::route
