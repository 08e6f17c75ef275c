#include "policy/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace sluice::policy {

TextFile read_text_file(const std::string& path) {
  // With O_NONBLOCK, open() does not wait for the writer of a pipe.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {.text = {}, .error = std::strerror(errno)};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{::fdopen(descriptor, "r"),
                                                             &std::fclose};
  if (file == nullptr) return {.text = {}, .error = std::strerror(errno)};
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return {.text = {}, .error = "it is not a regular file"};
  }
  TextFile read;
  char piece[64 * 1024];
  while (read.text.size() <= file_bytes_max) {
    const size_t bytes = std::fread(piece, 1, sizeof piece, file.get());
    read.text.append(piece, bytes);
    if (bytes == sizeof piece) continue;
    if (std::ferror(file.get()) != 0) read.error = std::strerror(errno);
    break;
  }
  return read;
}

}  // namespace sluice::policy
