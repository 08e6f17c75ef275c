// Goal: a file has its name when it is whole, and never takes that of another one. Method: real
// files.
#include "store/unfinished_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/as_nobody.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

class UnfinishedFileTest : public ::testing::Test {
 protected:
  UnfinishedFile make() { return UnfinishedFile::make(target, nullptr).value(); }
  mode_t mode_of(const std::string& path) const {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }

  const test::TemporaryFolder folder;
  const std::string target = folder.file("state");
  const std::string path = target + ".unfinished";
};

TEST_F(UnfinishedFileTest, gets_its_name_when_it_is_published) {
  UnfinishedFile file = make();
  EXPECT_EQ(file.path(), path);
  test::write_file(path, "content");
  EXPECT_FALSE(std::filesystem::exists(target));
  ASSERT_TRUE(file.publish());
  EXPECT_EQ(test::read_file(target), "content");
  EXPECT_EQ(mode_of(target), 0600u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(UnfinishedFileTest, removes_what_was_not_published) {
  {
    const UnfinishedFile file = make();
    test::write_file(path + "-journal", "half");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(UnfinishedFileTest, stays_when_it_moves_within_the_process) {
  Result<UnfinishedFile> made = UnfinishedFile::make(target, nullptr);
  const UnfinishedFile file = std::move(*made);
  made = tl::unexpected(make_failure(FailureKind::io, target));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(UnfinishedFileTest, publishes_over_no_file) {
  UnfinishedFile file = make();
  test::write_file(target, "mine");
  const auto refused = file.publish();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exists);
  EXPECT_EQ(test::read_file(target), "mine");
}

TEST_F(UnfinishedFileTest, replaces_a_file_when_it_is_to) {
  UnfinishedFile file = make();
  test::write_file(target, "old");
  test::write_file(path, "new");
  ASSERT_TRUE(file.replace());
  EXPECT_EQ(test::read_file(target), "new");
}

TEST_F(UnfinishedFileTest, is_of_one_process_at_a_time) {
  const UnfinishedFile file = make();
  const auto refused = UnfinishedFile::make(target, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::in_use);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(UnfinishedFileTest, overwrites_what_a_process_that_died_has_left) {
  test::write_file(path, "half");
  test::write_file(path + "-wal", "half");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  UnfinishedFile file = make();
  EXPECT_TRUE(std::filesystem::is_empty(path));
  EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
  ASSERT_TRUE(file.publish());
  EXPECT_EQ(mode_of(target), 0600u);
}

TEST_F(UnfinishedFileTest, follows_no_link) {
  test::write_file(folder.file("other"), "mine");
  std::filesystem::create_symlink(folder.file("other"), path);
  EXPECT_FALSE(UnfinishedFile::make(target, nullptr));
  EXPECT_EQ(test::read_file(folder.file("other")), "mine");
}

TEST_F(UnfinishedFileTest, takes_owner_and_permissions_of_another_file) {
  const std::string other = folder.file("other");
  test::write_file(other, "");
  ASSERT_EQ(::chmod(other.c_str(), 0640), 0);
  UnfinishedFile file = make();
  ASSERT_TRUE(file.set_owner_of(other));
  EXPECT_EQ(mode_of(path), 0640u);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(other.c_str(), 65'534, 65'534), 0);
  ASSERT_TRUE(file.set_owner_of(other));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 65'534u);
}

TEST_F(UnfinishedFileTest, reports_a_folder_that_is_missing) {
  const auto refused = UnfinishedFile::make(folder.file("no/state"), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::no_access);
}

}  // namespace
}  // namespace sluice::store
