// Goal: a file loses its free room and nothing else; whatever fails, it has what it had. Method:
// real files, and a disk that fails at every call in turn.
#include "store/compact.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "store/state_file.hpp"
#include "support/crash_disk.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using test::Content;
using test::CrashDisk;
using test::DiskFault;
using test::OwnedCut;

class CompactTest : public ::testing::Test {
 protected:
  // With free room in FILE, and commits that are in FILE-wal only.
  void SetUp() override {
    make();
    before = test::read_content(path);
  }
  void make() {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::filesystem::remove(entry.path());
    }
    {
      const auto file = StateFile::open({.path = path}).value();
      ASSERT_TRUE(commit_one(*file, OwnedCut(1, 0).part(1, std::string(900'000, 'a'))));
      ASSERT_TRUE(commit_one(*file, OwnedCut(2, 0).part(1, std::string(50'000, 'b')), 2));
      ASSERT_TRUE(file->close());
    }
    const auto file = StateFile::open({.path = path}).value();
    ASSERT_TRUE(commit_one(*file, OwnedCut(3, 0).part(1, "c").put("n", "{}", 5)));
  }
  uint64_t size() const { return std::filesystem::file_size(path); }

  const test::TemporaryFolder folder{test::TemporaryFolder::memory()};
  const std::string path = folder.file("state");
  Content before;
};

TEST_F(CompactTest, keeps_everything_but_free_room) {
  ASSERT_GT(size(), 900'000u);
  const auto done = compact(path);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_GT(done->bytes_before, 900'000u);
  EXPECT_EQ(done->bytes_after, size());
  EXPECT_LT(size(), 200'000u);
  EXPECT_EQ(test::read_content(path), before);
  EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));
  const auto file = StateFile::open({.path = path}).value();
  EXPECT_EQ(file->last_epoch(), 3u);
  ASSERT_TRUE(commit_one(*file, OwnedCut(4, 0).part(1, "d")));
  EXPECT_EQ(test::read_content(path).parts.size(), 3u);
}

TEST_F(CompactTest, keeps_owner_and_permissions) {
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 65'534, 65'534), 0);
    std::filesystem::remove(path + ".lock");
  }
  ASSERT_TRUE(compact(path));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  if (::geteuid() != 0) return;
  EXPECT_EQ(status.st_uid, 65'534u);
  ASSERT_EQ(::stat((path + ".lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 65'534u) << "the server's user must be able to lock it";
}

TEST_F(CompactTest, leaves_a_file_in_use_alone) {
  {
    const auto file = StateFile::open({.path = path}).value();
    const auto refused = compact(path);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, FailureKind::in_use);
    EXPECT_EQ(refused.error().detail, "process " + std::to_string(::getpid()));
  }
  auto reader = StateReader::open(path).value();
  const auto refused = compact(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::busy) << refused.error().text;
  EXPECT_EQ(test::read_content(path), before);
}

TEST_F(CompactTest, leaves_a_damaged_file_alone) {
  ASSERT_TRUE(StateFile::open({.path = path}).value()->close());
  {
    Database database = Database::open(path, Access::write, nullptr).value();
    ASSERT_TRUE(database.checkpoint_truncate().value());
  }
  std::string bytes = test::read_file(path);
  bytes.replace(20'000, 40'000, 40'000, '\xff');
  test::write_file(path, bytes);
  const auto refused = compact(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::damaged);
  EXPECT_EQ(test::read_file(path), bytes);
  EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));
}

TEST_F(CompactTest, leaves_what_is_no_state_file_alone) {
  test::write_file(path, "limits:\n");
  const auto refused = compact(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::not_ours);
  EXPECT_EQ(test::read_file(path), "limits:\n");
}

TEST_F(CompactTest, loses_nothing_when_any_call_of_the_disk_fails) {
  uint64_t failures = 0;
  for (uint64_t call = 0;; ++call) {
    SCOPED_TRACE(call);
    make();
    CrashDisk disk(call);
    disk.fail(DiskFault::io, call);
    const bool is_compact = compact(path, disk.vfs()).has_value();
    EXPECT_EQ(test::read_content(path), before);
    EXPECT_FALSE(std::filesystem::exists(path + ".unfinished")) << "it is not removed";
    if (is_compact && disk.calls_count() <= call) break;
    failures += is_compact ? 0 : 1;
    ASSERT_LT(call, 2'000u);
  }
  EXPECT_GT(failures, 40u);
}

TEST_F(CompactTest, loses_nothing_when_the_power_fails_at_any_call) {
  bool is_compact = false;
  uint64_t change = 0;
  for (; !is_compact; ++change) {
    SCOPED_TRACE(change);
    make();
    CrashDisk disk(change * 31 + 1);
    disk.fail_power_at(change);
    is_compact = compact(path, disk.vfs()).has_value();
    disk.restart();
    EXPECT_EQ(test::read_content(path), before);
    ASSERT_LT(change, 1'000u);
  }
  EXPECT_GT(change, 10u);
}

TEST_F(CompactTest, loses_nothing_when_the_disk_is_full) {
  for (uint64_t room = 0; room < 150'000; room += 10'000) {
    SCOPED_TRACE(room);
    make();
    CrashDisk disk(room);
    disk.set_room(room);
    const auto refused = compact(path, disk.vfs());
    if (refused) {
      EXPECT_GT(room, 50'000u);
      break;
    }
    EXPECT_EQ(refused.error().kind, FailureKind::full) << refused.error().text;
    EXPECT_EQ(test::read_content(path), before);
  }
}

}  // namespace
}  // namespace sluice::store
