#include "store/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <thread>

#include "store/file_place.hpp"

namespace sluice::store {
namespace {

constexpr std::chrono::milliseconds pause{20};

// The process that holds the lock, as it wrote itself.
std::string holder_of(const std::string& lock_path) {
  const io::FileDescriptor file(::open(lock_path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> text{};
  const ssize_t bytes = file.is_open() ? ::read(file.get(), text.data(), text.size()) : 0;
  if (bytes <= 0) return "which one is unknown";
  const std::string_view number(text.data(), static_cast<size_t>(bytes));
  return "process " + std::string(number.substr(0, number.find('\n')));
}

// Root makes the lock of a server's file that has none: the server's user must be able to open it.
void give_to_owner_of(const io::FileDescriptor& lock, const std::string& path) {
  struct stat file {};
  struct stat own {};
  if (::geteuid() != 0 || ::stat(path.c_str(), &file) != 0 || ::fstat(lock.get(), &own) != 0) {
    return;
  }
  if (own.st_uid == 0 && file.st_uid != 0) {
    [[maybe_unused]] const int changed = ::fchown(lock.get(), file.st_uid, file.st_gid);
  }
}

// Only people read it, so it does not matter if it cannot be written.
void write_holder(const io::FileDescriptor& file) {
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), text.data(), text.size(), 0);
  }
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path, std::chrono::milliseconds patience) {
  const std::string lock_path = path + ".lock";
  for (auto left = patience;; left -= pause) {
    io::FileDescriptor file(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.is_open()) return fail_to_open(lock_path, errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return fail(FailureKind::io, lock_path, error_text(errno));
      }
    } else if (is_at(file, lock_path)) {  // else it protects nothing
      give_to_owner_of(file, path);
      write_holder(file);
      return FileLock(std::move(file));
    }
    if (left <= pause) return fail(FailureKind::in_use, path, holder_of(lock_path));
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace sluice::store
