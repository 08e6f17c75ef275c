// The keys of a request as they lie in its frame: their text in one piece, and the size of each.
// Lives:  points into the frame.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::route {

struct KeyColumn {
  std::string_view text;
  std::span<const uint16_t> sizes;  // their sum is text.size()
};

}  // namespace sluice::route
