// The options of a kernel back end; the same for io_uring and epoll.
// Units:  bytes, and counts of one worker.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.hpp"
#include "io/file_descriptor.hpp"

namespace sluice::io {

struct Options {
  std::vector<FileDescriptor> listeners;  // a ListenerId is the place in here; see io/listen.hpp
  uint32_t sockets_max = 1024;            // slots; accepting pauses when all are in use
  uint32_t receive_buffers = limits::receive_buffers;
  uint32_t receive_buffer_bytes = limits::receive_buffer_bytes;  // a multiple of 8
  uint32_t completions = 0;     // room in io_uring's completion queue; 0: by the numbers above
  int64_t clock_offset_ns = 0;  // what now() returns is ahead of the monotonic clock by so much
};

}  // namespace sluice::io
