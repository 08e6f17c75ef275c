#include "transfer/new_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "store/file_place.hpp"
#include "transfer/complaints.hpp"

namespace sluice::transfer {
namespace {

constexpr const char* is_there = "exists already; name a file that does not exist";

tl::unexpected<std::vector<Complaint>> complain_of(int error) {
  return complain(error == EEXIST ? is_there : "cannot be written: " + store::error_text(error));
}

bool exists(const std::string& path) noexcept {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Some file systems, NFS among them, cannot refuse to replace a file.
int rename_to_new(const std::string& from, const std::string& to) noexcept {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (exists(to)) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

NewFile::NewFile(std::string path, std::string unfinished, int fd)
    : path_(std::move(path)), unfinished_(std::move(unfinished)), file_(fd) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, {})),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
  if (!unfinished_.empty()) ::unlink(unfinished_.c_str());
}

Complained<NewFile> NewFile::create(const std::string& path) {
  if (exists(path)) return complain(is_there);
  std::string unfinished = path + ".XXXXXX";
  const int fd = ::mkostemp(unfinished.data(), O_CLOEXEC);  // only its user may read it
  if (fd < 0) return complain_of(errno);
  return NewFile(path, std::move(unfinished), fd);
}

Complained<void> NewFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0) return complain_of(errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Complained<void> NewFile::publish() {
  if (::fsync(file_.get()) != 0) return complain_of(errno);
  const int error = rename_to_new(unfinished_, path_);
  if (error != 0) return complain_of(error);
  unfinished_.clear();
  const store::Result<void> synced = store::sync_folder_of(path_);
  if (!synced) return complain(text_of(synced.error()));
  return {};
}

}  // namespace sluice::transfer
