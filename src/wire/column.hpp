// A list of numbers, or a text, as it lies in a frame.
// Lives:  points into the frame.
#pragma once

#include <span>
#include <string_view>

namespace sluice::wire {

// Little-endian; empty when the frame does not have it.
template <typename T>
using Column = std::span<const T>;

// The bytes of a Text without the NUL at their end.
inline std::string_view without_nul(std::string_view text) noexcept {
  if (text.ends_with('\0')) text.remove_suffix(1);
  return text;
}

}  // namespace sluice::wire
