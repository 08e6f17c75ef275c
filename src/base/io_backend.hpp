// The kernel interfaces that the server can do its I/O with, as --io names them.
#pragma once

#include <cstdint>

namespace sluice::base {

enum class IoBackend : uint8_t {
  automatic,  // io_uring where the kernel allows it, epoll otherwise
  uring,
  epoll,
};

}  // namespace sluice::base
