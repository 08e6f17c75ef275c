// Lets one process at a time use the state file: flock(2) on FILE.lock, which holds the number of
// that process for people to read.
// Errors: in_use names the holder; no_access and readonly: the lock file cannot be made.
// Lives:  the lock ends with the object or the process, however it dies. The file stays: to remove
//         it would let two processes lock two files of one name.
#pragma once

#include <chrono>
#include <string>

#include "io/file_descriptor.hpp"
#include "store/failure.hpp"

namespace sluice::store {

// A restart finds the process before it about to end, so a taken lock is tried for a while.
inline constexpr std::chrono::milliseconds lock_patience{2'000};

class FileLock {
 public:
  // `path` is the file to protect.
  static Result<FileLock> take(const std::string& path,
                               std::chrono::milliseconds patience = lock_patience);

 private:
  explicit FileLock(io::FileDescriptor file) noexcept : file_(std::move(file)) {}

  io::FileDescriptor file_;
};

}  // namespace sluice::store
