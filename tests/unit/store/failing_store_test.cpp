// Goal: the state file where the kernel or its file system refuses: an error that names the file, a
// way around, or a warning. Method: real files, below which calls fail; a VFS of SQLite without
// shared memory.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "log/log.hpp"
#include "store/file_lock.hpp"
#include "store/state_file.hpp"
#include "store/unfinished_file.hpp"
#include "support/failing_calls.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;
using test::Call;
using test::FailingCall;

class FailingStore : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StateFile>> open(const char* vfs = nullptr) {
    return StateFile::open({.path = path, .lock_patience = milliseconds(0), .vfs = vfs});
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
};

TEST_F(FailingStore, no_memory_for_locks_is_an_error_of_the_lock) {
  for (const int error : {ENOLCK, ENOMEM}) {
    const FailingCall failing(Call::flock, error);
    const auto lock = FileLock::take(path, milliseconds(600'000));
    ASSERT_FALSE(lock) << "it does not wait for what no waiting ends";
    EXPECT_EQ(lock.error().kind, FailureKind::io);
    EXPECT_NE(lock.error().text.find(path + ".lock"), std::string::npos) << lock.error().text;
    EXPECT_NE(lock.error().text.find(std::strerror(error)), std::string::npos);
    EXPECT_EQ(failing.failed_count(), 1U);
  }
}

TEST_F(FailingStore, an_interrupted_lock_is_taken_again) {
  const FailingCall failing(Call::flock, EINTR, {.failing = 2});
  EXPECT_TRUE(FileLock::take(path, milliseconds(600'000)));
  EXPECT_EQ(failing.failed_count(), 2U);
}

TEST_F(FailingStore, a_file_is_published_by_a_link_where_a_rename_may_replace) {
  for (const int error : {EINVAL, ENOSYS}) {
    const FailingCall failing(Call::renameat2, error);
    UnfinishedFile file = UnfinishedFile::make(path, nullptr).value();
    test::write_file(file.path(), "content");
    ASSERT_TRUE(file.publish());
    EXPECT_EQ(test::read_file(path), "content");
    EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));

    UnfinishedFile second = UnfinishedFile::make(path, nullptr).value();
    const auto refused = second.publish();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, FailureKind::exists);
    EXPECT_EQ(test::read_file(path), "content") << "a link replaces no file either";
    std::filesystem::remove(path);
  }
}

TEST_F(FailingStore, another_error_of_a_rename_stays_one) {
  const FailingCall failing(Call::renameat2, EIO);
  UnfinishedFile file = UnfinishedFile::make(path, nullptr).value();
  EXPECT_FALSE(file.publish());
  EXPECT_FALSE(std::filesystem::exists(path));
}

// What the log has while `use` runs.
template <typename Use>
std::string logged(Use use) {
  std::FILE* const file = std::tmpfile();
  log::start({.level = log::Level::info, .includes_source = false, .stream = file});
  use();
  EXPECT_TRUE(log::stop(std::chrono::seconds(5)));
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST_F(FailingStore, warns_of_a_network_file_system) {
  const auto opened = [&] { EXPECT_TRUE(open()); };
  EXPECT_EQ(logged(opened), "");
  {
    const FailingCall failing(Call::statfs64, EACCES);
    EXPECT_EQ(logged(opened), "") << "unknown is not a network";
    EXPECT_EQ(failing.failed_count(), 1U);
  }
  const FailingCall failing(Call::statfs64, test::is_nfs);
  const std::string line = logged(opened);
  EXPECT_NE(line.find("the state file is on a network file system"), std::string::npos) << line;
  EXPECT_NE(line.find(path), std::string::npos) << line;
}

// The default VFS, whose files have no shared memory: as on a file system without mmap().
class WithoutSharedMemory {
 public:
  WithoutSharedMemory() {
    below_ = sqlite3_vfs_find(nullptr);
    vfs_ = *below_;
    vfs_.zName = name();
    vfs_.xOpen = [](sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* got) {
      const int result = below_->xOpen(vfs, path, file, flags, got);
      if (file->pMethods == nullptr) return result;
      methods_ = *file->pMethods;
      methods_.iVersion = 1;  // before shared memory
      file->pMethods = &methods_;
      return result;
    };
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, 0), SQLITE_OK);
  }
  ~WithoutSharedMemory() { sqlite3_vfs_unregister(&vfs_); }

  static const char* name() { return "without_shared_memory"; }

 private:
  static inline sqlite3_vfs* below_ = nullptr;
  static inline sqlite3_io_methods methods_{};
  sqlite3_vfs vfs_{};
};

TEST_F(FailingStore, a_file_system_without_shared_memory_is_refused) {
  const WithoutSharedMemory vfs;
  auto file = open(WithoutSharedMemory::name());
  ASSERT_TRUE(file) << file.error().text;
  const Result<void> done = test::commit_one(**file, test::OwnedCut(1, 0).part(1, "p"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::no_access);
  EXPECT_NE(done.error().text.find("cannot share memory between processes"), std::string::npos)
      << done.error().text;
}

}  // namespace
}  // namespace sluice::store
