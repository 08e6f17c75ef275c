// A file that is whole before it has its name: store::UnfinishedFile, with complaints.
// Flow:   create(path) makes a file beside it -> the caller fills it -> publish() names it.
// Errors: publish() fails when there is a file of that name by now; it stays as it is.
// Lives:  a file that was never published is deleted; one that was survives a power failure.
#pragma once

#include <string>
#include <string_view>

#include "io/file_descriptor.hpp"
#include "store/unfinished_file.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

class NewFile {
 public:
  static Complained<NewFile> create(const std::string& path);

  const std::string& path() const noexcept { return unfinished_.path(); }
  Complained<void> append(std::string_view bytes);
  Complained<void> publish();

 private:
  NewFile(store::UnfinishedFile unfinished, int fd)
      : unfinished_(std::move(unfinished)), file_(fd) {}

  store::UnfinishedFile unfinished_;
  io::FileDescriptor file_;
};

}  // namespace sluice::transfer
