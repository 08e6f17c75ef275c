// How other threads and signal handlers end a poll() that waits.
// Flow:   wake() -> eventfd -> the back end sees it readable -> acknowledge() -> `woken`.
// Lives:  any thread and signal handlers call raise(); the polling thread does the rest.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "io/file_descriptor.hpp"

namespace sluice::io {

class WakeSignal {
 public:
  // `flags` of eventfd(2). For io_uring the read must be a blocking one.
  explicit WakeSignal(int flags) : event_(::eventfd(0, EFD_CLOEXEC | flags)) {
    if (!event_.is_open()) {
      throw std::system_error(errno, std::generic_category(), "cannot create an eventfd");
    }
  }

  int fd() const noexcept { return event_.get(); }

  void raise() noexcept {
    // One write is enough until it is seen.
    if (raised_.exchange(true, std::memory_order_acq_rel)) return;
    const int saved = errno;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd(), &one, sizeof one);
    errno = saved;  // signal handlers call this
  }

  // Before the poll() returns: whatever was published before raise() is seen after it.
  void acknowledge() noexcept { raised_.exchange(false, std::memory_order_acq_rel); }

 private:
  FileDescriptor event_;
  std::atomic<bool> raised_{false};
};

}  // namespace sluice::io
