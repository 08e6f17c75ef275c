#include "transfer/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "transfer/complaints.hpp"

namespace sluice::transfer {
namespace {

constexpr const char* is_there = "exists already; name a file that does not exist";

tl::unexpected<std::vector<Complaint>> complain_of(int error) {
  return complain("cannot be written: " + store::error_text(error));
}

tl::unexpected<std::vector<Complaint>> complain_of(const store::Failure& failure) {
  return complain(failure.kind == store::FailureKind::exists ? is_there : text_of(failure));
}

bool exists(const std::string& path) noexcept {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

Complained<NewFile> NewFile::create(const std::string& path) {
  if (exists(path)) return complain(is_there);
  store::Result<store::UnfinishedFile> unfinished = store::UnfinishedFile::make(path, nullptr);
  if (!unfinished) return complain_of(unfinished.error());
  const int fd = ::open(unfinished->path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return complain_of(errno);
  return NewFile(std::move(*unfinished), fd);
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
  const store::Result<void> done = unfinished_.publish();
  if (!done) return complain_of(done.error());
  return {};
}

}  // namespace sluice::transfer
