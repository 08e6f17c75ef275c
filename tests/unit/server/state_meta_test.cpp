// Goal:   a file gets seeds of its own, and a server that starts with it finds them.
// Method: real files.
#include "server/state_meta.hpp"

#include <gtest/gtest.h>

#include "server/stored_file.hpp"
#include "tests/support/stored_state.hpp"
#include "tests/support/temporary_folder.hpp"

namespace sluice::server {
namespace {

TEST(StateMeta, every_file_has_seeds_of_its_own) {
  const StateSeeds first = draw_seeds();
  const StateSeeds second = draw_seeds();
  EXPECT_NE(first.name_seed, second.name_seed);
  EXPECT_NE(first.routing_seed, second.routing_seed);
  EXPECT_NE(first.name_seed, first.routing_seed);
}

TEST(StateMeta, is_what_the_next_start_reads) {
  const test::TemporaryFolder folder;
  auto file = store::StateFile::open({.path = folder.file("state")}).value();
  set_meta(*file, {.name_seed = 11, .routing_seed = UINT64_MAX}, 3);
  ASSERT_TRUE(test::commit_one(*file, test::OwnedCut(1, 0)));
  const StoredFile stored(folder.file("state"));
  EXPECT_EQ(stored.seeds()->name_seed, 11U);
  EXPECT_EQ(stored.seeds()->routing_seed, UINT64_MAX);
  const test::Content content = test::read_content(folder.file("state"));
  const store::StoredMeta shards{.key = shards_key, .value = "3"};
  EXPECT_EQ(std::ranges::count(content.meta, shards), 1);
}

}  // namespace
}  // namespace sluice::server
