// Receive buffers that the kernel picks from when bytes are there: an idle socket holds none.
// Flow:   return_buffers() -> kernel fills one -> take(completion) -> reader -> return_buffers().
// Units:  bytes.
// Errors: the constructor throws std::system_error.
// Lives:  the reader owns what take() gave until return_buffers(), once a poll(). Never kept
//         longer: an empty ring ends every receive.
// Source: io_uring_register_buf_ring(3); liburing 2.3 has no io_uring_setup_buf_ring().
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mapped_region.hpp"

namespace sluice::io {

class BufferRing {
 public:
  static constexpr uint16_t group = 1;

  // `count` buffers of `bytes_each`, at most 32,768.
  BufferRing(io_uring& ring, uint32_t count, uint32_t bytes_each);

  // The bytes of a completion that has IORING_CQE_F_BUFFER.
  std::span<std::byte> take(const io_uring_cqe& cqe) noexcept;

  // Returns all taken buffers to the kernel.
  void return_buffers() noexcept;

  // Buffers that were not taken; some may already be in completions that were not handled yet.
  uint32_t free() const noexcept { return count_ - static_cast<uint32_t>(taken_.size()); }

 private:
  void add(uint16_t buffer, int place) noexcept;

  uint32_t count_;
  uint32_t bytes_each_;
  uint32_t entries_;  // count_, rounded up to a power of two
  base::MappedRegion ring_memory_;
  base::MappedRegion memory_;
  io_uring_buf_ring* ring_;
  std::vector<uint16_t> taken_;
};

}  // namespace sluice::io
