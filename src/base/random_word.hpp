// 64 bits of the system's randomness.
#pragma once

#include <cstdint>
#include <random>

namespace sluice::base {

inline uint64_t random_word(std::random_device& device) {
  return (uint64_t{device()} << 32) | device();
}

}  // namespace sluice::base
