// Goal: two processes never have the lock. Method: real files; a child process holds the lock.
#include "store/file_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "support/as_nobody.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;

// A process that has the lock until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& path, milliseconds holds = milliseconds(600'000)) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto lock = FileLock::take(path);
      const char byte = lock ? '1' : '0';
      if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
      ::usleep(static_cast<useconds_t>(holds.count() * 1'000));
      ::_exit(0);
    }
    char byte = '0';
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, '1');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Holder() { kill(); }

  pid_t process() const noexcept { return process_; }

  void kill() noexcept {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
};

TEST(FileLock, names_the_process_that_has_it) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  Holder holder(path);
  const auto refused = FileLock::take(path, milliseconds(50));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::in_use);
  EXPECT_EQ(refused.error().detail, "process " + std::to_string(holder.process()));
}

TEST(FileLock, ends_with_its_process_however_it_dies) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  Holder holder(path);
  holder.kill();
  EXPECT_TRUE(FileLock::take(path, milliseconds(0)));
}

TEST(FileLock, waits_for_a_process_that_is_about_to_end) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const Holder holder(path, milliseconds(200));
  EXPECT_TRUE(FileLock::take(path, milliseconds(30'000)));
}

TEST(FileLock, is_exclusive_within_a_process_too) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  std::optional<FileLock> lock = FileLock::take(path).value();
  const auto refused = FileLock::take(path, milliseconds(0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail, "process " + std::to_string(::getpid()));
  lock.reset();
  EXPECT_TRUE(FileLock::take(path, milliseconds(0)));
}

TEST(FileLock, writes_the_process_of_its_holder_into_a_file_of_its_own) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  test::write_file(path + ".lock", "4711 and more of an earlier holder\n");
  const auto lock = FileLock::take(path);
  ASSERT_TRUE(lock);
  EXPECT_EQ(test::read_file(path + ".lock"), std::to_string(::getpid()) + "\n");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FileLock, lets_only_its_user_read_the_file) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const auto lock = FileLock::take(path);
  struct stat status {};
  ASSERT_EQ(::stat((path + ".lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(FileLock, does_not_hold_a_file_that_was_removed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state");
  const Holder holder(path);
  std::filesystem::remove(path + ".lock");
  EXPECT_TRUE(FileLock::take(path, milliseconds(0))) << "a new file, and a new lock";
}

TEST(FileLock, reports_a_folder_that_cannot_be_used) {
  const test::TemporaryFolder folder;
  const auto missing = FileLock::take(folder.file("no/state"), milliseconds(0));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, FailureKind::no_access);
  EXPECT_EQ(missing.error().detail, "No such file or directory");
  const test::AsNobody nobody;
  const auto forbidden = FileLock::take("/state", milliseconds(0));
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().detail, "Permission denied");
}

}  // namespace
}  // namespace sluice::store
