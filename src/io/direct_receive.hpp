// Io::receive_now() over a system call: recv(2) into memory of its own.
// Units:  bytes.
// Lives:  one per Io; what take() returned is valid until the next take().
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.hpp"
#include "base/mapped_region.hpp"

namespace sluice::io {

class DirectReceive {
 public:
  struct Taken {
    std::span<std::byte> bytes;
    int32_t failure = 0;  // a negative errno
  };

  DirectReceive() : memory_(limits::taken_bytes_max, "bytes of connections that are behind") {}

  Taken take(int fd, size_t bytes_max) noexcept {
    const size_t most = std::min(bytes_max, memory_.size());
    const ssize_t result = ::recv(fd, memory_.data(), most, MSG_DONTWAIT);
    if (result >= 0) return {.bytes = {memory_.data(), static_cast<size_t>(result)}};
    if (errno == EAGAIN || errno == EINTR) return {};
    return {.failure = -errno};
  }

 private:
  base::MappedRegion memory_;
};

}  // namespace sluice::io
