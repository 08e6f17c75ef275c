// SplitMix64: a step to add to a state, and a mix of all bits of the sum.
// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014; Vigna,
//         splitmix64.c.
#pragma once

#include <cstdint>

namespace sluice::base {

inline constexpr uint64_t splitmix64_step = 0x9E37'79B9'7F4A'7C15;  // 2^64 / the golden ratio, odd

// The finalizer. As a generator: splitmix64(state += splitmix64_step).
constexpr uint64_t splitmix64(uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EB;
  return value ^ (value >> 31);
}

}  // namespace sluice::base
