#include "store/unfinished_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "store/database.hpp"
#include "store/file_place.hpp"

namespace sluice::store {
namespace {

// As one step where the file system can; else a link, which never replaces a file either.
int rename_without_replacing(const std::string& from, const std::string& to) noexcept {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  return ::unlink(from.c_str()) == 0 ? 0 : errno;
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::string target, std::string path, io::FileDescriptor lock,
                               const char* vfs)
    : target_(std::move(target)), path_(std::move(path)), lock_(std::move(lock)), vfs_(vfs) {}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : target_(std::move(other.target_)),
      path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      vfs_(other.vfs_) {}

UnfinishedFile::~UnfinishedFile() {
  if (path_.empty()) return;
  for (const char* suffix : {"-journal", "-wal", "-shm", ""}) {
    Database::remove_file(path_ + suffix, vfs_);
  }
}

// The lock is on the descriptor, which stays open: SQLite's own locks end with the first descriptor
// of the file that is closed. A process that had it until now may have published the file.
Result<UnfinishedFile> UnfinishedFile::make(const std::string& target, const char* vfs) {
  const std::string path = path_of(target);
  io::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return fail_to_open(target, errno);
  const bool is_locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno != EWOULDBLOCK) return fail(FailureKind::io, path, error_text(errno));
  if (!is_locked || !is_at(file, path)) return fail(FailureKind::in_use, path);
  UnfinishedFile made(target, path, std::move(file), vfs);
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    Database::remove_file(path + suffix, vfs);
  }
  if (::ftruncate(made.lock_.get(), 0) != 0 || ::fchmod(made.lock_.get(), 0600) != 0) {
    return fail(FailureKind::io, path, error_text(errno));
  }
  return made;
}

Result<void> UnfinishedFile::set_owner_of(const std::string& other) {
  struct stat status {};
  if (::stat(other.c_str(), &status) != 0) return fail_to_open(other, errno);
  struct stat own {};
  if (::fstat(lock_.get(), &own) != 0) return fail(FailureKind::io, path_, error_text(errno));
  const bool has_owner = own.st_uid == status.st_uid && own.st_gid == status.st_gid;
  if (!has_owner && ::fchown(lock_.get(), status.st_uid, status.st_gid) != 0) {
    return fail(FailureKind::no_access, path_, "it must have the owner of " + other);
  }
  if (::fchmod(lock_.get(), status.st_mode & 0777) != 0) {
    return fail(FailureKind::io, path_, error_text(errno));
  }
  return {};
}

Result<void> UnfinishedFile::end(int error) {
  if (error != 0) return fail_to_open(target_, error);
  path_.clear();
  return sync_folder_of(target_);
}

Result<void> UnfinishedFile::publish() {
  return end(rename_without_replacing(path_, target_));
}

Result<void> UnfinishedFile::replace() {
  return end(::rename(path_.c_str(), target_.c_str()) == 0 ? 0 : errno);
}

}  // namespace sluice::store
