// Goal: a backup is whole, private and never replaces anything. Method: real files; the copy is
// opened as a state file.
#include "store/backup.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "store/schema.hpp"
#include "store/state_file.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::OwnedCut;

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file = StateFile::open({.path = path}).value();
    ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, "a").put("n", "{}", 1)));
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const std::string target = folder.file("copy's name");
  std::unique_ptr<StateFile> file;
};

TEST_F(BackupTest, copies_what_a_running_server_has_committed) {
  const auto done = backup(path, target);
  ASSERT_TRUE(done) << done.error().text;
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "b")));
  EXPECT_EQ(test::read_content(target).parts.size(), 1u);
  EXPECT_EQ(test::read_content(path).parts.size(), 2u);
}

TEST_F(BackupTest, makes_a_file_that_a_server_goes_on_with) {
  ASSERT_TRUE(backup(path, target));
  const auto restored = StateFile::open({.path = target});
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ((*restored)->last_epoch(), 1u);
  ASSERT_TRUE(commit_one(**restored, OwnedCut(2, 0).part(1, "c")));
  EXPECT_EQ(test::read_content(target).quotas, test::read_content(path).quotas);
  Database database = Database::open(target, Access::read, nullptr).value();
  EXPECT_EQ(database.integer("PRAGMA page_size").value(), page_bytes);
  EXPECT_EQ(database.text("PRAGMA journal_mode").value(), "wal");
}

// SQLite would copy the log into whatever file has its name.
TEST_F(BackupTest, is_not_mixed_with_the_log_of_the_file_that_it_replaces) {
  ASSERT_TRUE(backup(path, target));
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, "b")));
  file.reset();
  ASSERT_GT(std::filesystem::file_size(path + "-wal"), 0u);
  std::filesystem::copy_file(target, path, std::filesystem::copy_options::overwrite_existing);
  const std::string restored = test::read_file(path);
  const std::string log = test::read_file(path + "-wal");
  const auto refused = StateFile::open({.path = path});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::moved) << refused.error().text;
  EXPECT_EQ(StateReader::open(path).error().kind, FailureKind::moved);
  EXPECT_EQ(test::read_file(path), restored);
  EXPECT_EQ(test::read_file(path + "-wal"), log);
  std::filesystem::remove(path + "-wal");
  EXPECT_EQ(StateFile::open({.path = path}).value()->last_epoch(), 1u);
}

TEST_F(BackupTest, lets_only_its_user_read_the_copy) {
  ASSERT_TRUE(backup(path, target));
  struct stat status {};
  ASSERT_EQ(::stat(target.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(BackupTest, never_replaces_a_file) {
  test::write_file(target, "");
  const auto refused = backup(path, target);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exists);
  EXPECT_TRUE(std::filesystem::is_empty(target));
}

TEST_F(BackupTest, reports_a_source_or_target_that_cannot_be_used) {
  const auto missing = backup(folder.file("no"), target);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::no_access);
  EXPECT_FALSE(std::filesystem::exists(target));
  const auto nowhere = backup(path, folder.file("no/copy"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, FailureKind::no_access);
}

TEST_F(BackupTest, leaves_no_target_when_it_fails) {
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, std::string(3'000'000, 'a'))));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{.rlim_cur = 1'000'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto failed = backup(path, target);
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::io);
  EXPECT_TRUE(failed.error().text.starts_with(target)) << failed.error().text;
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(BackupTest, refuses_a_damaged_source) {
  ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, std::string(3'000'000, 'a'))));
  ASSERT_TRUE(file->close());
  std::string bytes = test::read_file(path);
  bytes.replace(bytes.size() / 2, 32'768, 32'768, '\xff');
  test::write_file(path, bytes);
  const auto failed = backup(path, target);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::damaged);
  EXPECT_FALSE(std::filesystem::exists(target));
}

}  // namespace
}  // namespace sluice::store
