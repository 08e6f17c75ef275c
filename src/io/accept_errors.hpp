// Failures of accept(): which of them pass by themselves, and how a peer is refused when no
// descriptor is left for it.
// Units:  nanoseconds; a failure is a negative errno.
// Source: accept(2), "Error handling".
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/time.hpp"
#include "io/file_descriptor.hpp"

namespace sluice::io {

// Out of descriptors or memory, or forbidden: how long until accepting is tried again.
inline constexpr int64_t accept_pause_ns = 100 * base::ns_per_ms;

// The one connection failed, or nothing did: the next one may be accepted at once. Any other
// failure may last, and the listener stays readable: without a pause the worker would never sleep.
inline bool is_transient_accept_failure(int32_t failure) noexcept {
  switch (-failure) {
    case EAGAIN:
    case ECANCELED:
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
      return true;
    default:
      return false;
  }
}

// A descriptor that is given up for a moment, to accept a connection only to close it.
class SpareDescriptor {
 public:
  SpareDescriptor() noexcept { take(); }

  void refuse_one(int listener) noexcept {
    spare_.reset();
    FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)).reset();
    take();
  }

 private:
  void take() noexcept { spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  FileDescriptor spare_;
};

}  // namespace sluice::io
