// The smaller of two limits, either of which may be absent.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::base {

// Zero means no limit.
constexpr uint32_t smaller_limit(uint32_t one, uint32_t other) noexcept {
  if (one == 0) return other;
  return other == 0 ? one : std::min(one, other);
}

}  // namespace sluice::base
