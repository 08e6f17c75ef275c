#include "io/uring/buffer_ring.hpp"

#include <bit>
#include <system_error>

#include "base/assert.hpp"

namespace sluice::io {

BufferRing::BufferRing(io_uring& ring, uint32_t count, uint32_t bytes_each)
    : count_(count),
      bytes_each_(bytes_each),
      entries_(std::bit_ceil(count)),
      ring_memory_(entries_ * sizeof(io_uring_buf), "ring of receive buffers"),
      memory_(size_t{count} * bytes_each, "receive buffers"),
      ring_(reinterpret_cast<io_uring_buf_ring*>(ring_memory_.data())) {
  ASSERT(count > 0 && count <= 32'768);
  ASSERT(bytes_each > 0 && bytes_each % 8 == 0);
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uintptr_t>(ring_);
  registration.ring_entries = entries_;
  registration.bgid = group;
  const int result = io_uring_register_buf_ring(&ring, &registration, 0);
  if (result < 0) {
    throw std::system_error(-result, std::generic_category(), "io_uring_register_buf_ring");
  }
  io_uring_buf_ring_init(ring_);
  taken_.reserve(count);
  for (uint32_t buffer = 0; buffer < count; ++buffer)
    taken_.push_back(static_cast<uint16_t>(buffer));
  return_buffers();
}

std::span<std::byte> BufferRing::take(const io_uring_cqe& cqe) noexcept {
  ASSERT((cqe.flags & IORING_CQE_F_BUFFER) != 0);
  const auto buffer = static_cast<uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
  const auto bytes = static_cast<size_t>(cqe.res > 0 ? cqe.res : 0);
  ASSERT(buffer < count_);
  ASSERT(bytes <= bytes_each_);
  ASSERT(taken_.size() < count_);
  taken_.push_back(buffer);
  return {memory_.data() + size_t{buffer} * bytes_each_, bytes};
}

void BufferRing::return_buffers() noexcept {
  int place = 0;
  for (const uint16_t buffer : taken_) add(buffer, place++);
  io_uring_buf_ring_advance(ring_, place);
  taken_.clear();
}

void BufferRing::add(uint16_t buffer, int place) noexcept {
  io_uring_buf_ring_add(ring_, memory_.data() + size_t{buffer} * bytes_each_, bytes_each_, buffer,
                        static_cast<int>(entries_ - 1), place);
}

}  // namespace sluice::io
