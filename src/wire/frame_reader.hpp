// Cuts whole Cap'n Proto stream frames out of bytes, without copying or allocating.
// Flow:   net::Connection bytes -> read_frame() -> wire::decode().
// Shape:  segment count minus one and the segments' sizes in words (each 4 bytes, little-endian,
//         padded to 8), then the segments. At most limits::frame_segments_max segments and
//         `frame_bytes_max` bytes, the table included.
// Units:  bytes; a frame's length is a multiple of 8.
// Errors: need_more is normal; malformed is final for the connection; never throws.
// Source: Cap'n Proto encoding, "Serialization over a stream"; three outcomes after picohttpparser.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.hpp"

namespace sluice::wire {

using Frame = std::span<const std::byte>;

inline constexpr size_t word_bytes = 8;

constexpr size_t words_for(size_t bytes) noexcept {
  return (bytes + word_bytes - 1) / word_bytes;
}

// The segment table's length: a count and a size for each segment, padded to a word.
constexpr size_t segment_table_bytes(size_t segments_count) noexcept {
  return (segments_count / 2 + 1) * word_bytes;
}

// The frame at the start of `bytes`, segment table included. NeedMore has the frame's length as
// soon as the table is complete. Errors: frame_too_large, malformed (a first word of 0xFFFFFFFF).
base::Decoded<Frame> read_frame(std::span<const std::byte> bytes, size_t frame_bytes_max) noexcept;

}  // namespace sluice::wire
