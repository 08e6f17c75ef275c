#include "wire/frame_reader.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/limits.hpp"

namespace sluice::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire's numbers are read in place");
static_assert(sizeof(size_t) == 8, "eight segments of 2^32 words must not wrap around");

uint32_t number_at(std::span<const std::byte> bytes, size_t index) noexcept {
  uint32_t number;
  std::memcpy(&number, bytes.data() + index * sizeof(number), sizeof(number));
  return number;
}

}  // namespace

base::Decoded<Frame> read_frame(std::span<const std::byte> bytes, size_t frame_bytes_max) noexcept {
  if (bytes.size() < sizeof(uint32_t)) return base::NeedMore{word_bytes};

  // The count is stored minus one. Libraries disagree about a first word that wraps around to 0
  // segments, so it is refused before a library reads it.
  const uint32_t last_segment = number_at(bytes, 0);
  if (last_segment == 0xFFFF'FFFF) return base::Malformed{ErrorCode::malformed};
  if (last_segment >= limits::frame_segments_max) {
    return base::Malformed{ErrorCode::frame_too_large};
  }

  const size_t table_bytes = segment_table_bytes(last_segment + 1);
  if (table_bytes > frame_bytes_max) return base::Malformed{ErrorCode::frame_too_large};
  if (bytes.size() < table_bytes) return base::NeedMore{table_bytes};

  size_t frame_bytes = table_bytes;
  for (size_t segment = 0; segment <= last_segment; ++segment) {
    frame_bytes += word_bytes * number_at(bytes, 1 + segment);
  }
  if (frame_bytes > frame_bytes_max) return base::Malformed{ErrorCode::frame_too_large};
  if (bytes.size() < frame_bytes) return base::NeedMore{frame_bytes};
  return base::Complete<Frame>{bytes.first(frame_bytes), frame_bytes};
}

}  // namespace sluice::wire
