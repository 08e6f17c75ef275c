// A file that is whole before it has its name.
// Flow:   create(path) makes a file beside it -> the caller fills it -> publish() names it.
// Errors: publish() fails when there is a file of that name by now; it stays as it is.
// Lives:  a file that was never published is deleted; one that was survives a power failure.
#pragma once

#include <string>

#include "io/file_descriptor.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

class NewFile {
 public:
  static Complained<NewFile> create(const std::string& path);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  const std::string& path() const noexcept { return unfinished_; }
  Complained<void> append(std::string_view bytes);
  Complained<void> publish();

 private:
  NewFile(std::string path, std::string unfinished, int fd);

  std::string path_;
  std::string unfinished_;  // empty: there is none any more
  io::FileDescriptor file_;
};

}  // namespace sluice::transfer
