// The socket of a connection that this side begins.
// Errors: a negative errno: out of descriptors or memory, or no such family on this machine.
#pragma once

#include <tl/expected.hpp>

#include <cerrno>
#include <cstdint>

#include "io/file_descriptor.hpp"
#include "io/socket_options.hpp"

namespace sluice::io {

// Does not block; has the options that accepted sockets have.
inline tl::expected<FileDescriptor, int32_t> open_outgoing(int family) noexcept {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return tl::unexpected<int32_t>(-errno);
  for (const SocketOption& option : connection_options) {
    if (::setsockopt(fd.get(), option.level, option.option, &option.value, sizeof option.value) !=
        0) {
      return tl::unexpected<int32_t>(-errno);
    }
  }
  return fd;
}

}  // namespace sluice::io
