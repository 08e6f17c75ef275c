#include "transfer/file_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/file_descriptor.hpp"
#include "transfer/complaints.hpp"

namespace sluice::transfer {

Complained<std::string> read_begin(const std::string& path, size_t bytes_max) {
  // Without waiting for the writer of a pipe.
  const io::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return complain("cannot be opened: " + store::error_text(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return complain(store::error_text(errno));
  if (!S_ISREG(status.st_mode)) return complain("is no regular file");
  std::string bytes(std::min(static_cast<size_t>(status.st_size), bytes_max), '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t read = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (read < 0) return complain("cannot be read: " + store::error_text(errno));
    if (read == 0) break;
    size += static_cast<size_t>(read);
  }
  bytes.resize(size);
  return bytes;
}

Complained<std::string> read_all(const std::string& path) {
  Complained<std::string> bytes = read_begin(path, go_ratelimit_file_bytes_max + 1);
  if (bytes && bytes->size() > go_ratelimit_file_bytes_max) {
    return complain("is larger than " + std::to_string(go_ratelimit_file_bytes_max >> 20) + " MiB");
  }
  return bytes;
}

}  // namespace sluice::transfer
