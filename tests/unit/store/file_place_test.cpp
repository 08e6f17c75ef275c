// Method: real files, links and folders.
#include "store/file_place.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

TEST(FilePlace, finds_the_same_path_through_links) {
  const test::TemporaryFolder folder;
  const std::string real = real_path(folder.file("state"));
  std::filesystem::create_directory(folder.file("sub"));
  EXPECT_EQ(real_path(folder.file("sub/../state")), real) << "which does not exist yet";
  test::write_file(folder.file("state"), "x");
  std::filesystem::create_symlink(folder.file("state"), folder.file("link"));
  EXPECT_EQ(real_path(folder.file("link")), real);
  EXPECT_TRUE(std::filesystem::path(real_path("a")).is_absolute());
}

TEST(FilePlace, distinguishes_files_of_one_name) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  EXPECT_FALSE(status_of(path));
  test::write_file(path, "12345");
  const auto status = status_of(path);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->bytes, 5u);
  EXPECT_GT(status->modified_wall_ns, 0);
  EXPECT_EQ(status_of(path)->identity, status->identity);
  test::write_file(folder.file("other"), "12345");
  std::filesystem::rename(folder.file("other"), path);
  EXPECT_NE(status_of(path)->identity, status->identity);
}

TEST(FilePlace, knows_local_and_network_file_systems) {
  EXPECT_TRUE(is_network_type(0x6969)) << "NFS";
  EXPECT_TRUE(is_network_type(0xFFFF'FFFF'FF53'4D42)) << "CIFS, its sign extended";
  EXPECT_FALSE(is_network_type(0xEF53)) << "ext4";
  const test::TemporaryFolder folder;
  EXPECT_FALSE(is_on_network(folder.path().string()));
  EXPECT_FALSE(is_on_network("/no/such/file"));
}

TEST(FilePlace, syncs_a_folder) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(sync_folder_of(folder.file("state")));
  EXPECT_TRUE(sync_folder_of("state")) << "in the working folder";
  const auto failed = sync_folder_of(folder.file("no/state"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::no_access);
}

}  // namespace
}  // namespace sluice::store
