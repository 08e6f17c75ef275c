// One of several values, drawn.
#pragma once

#include <array>
#include <cstddef>

#include "io/sim/sim_faults.hpp"

namespace sluice::simulation {

template <typename T, size_t count>
T pick(io::Random& random, const std::array<T, count>& values) {
  return values[random.below(count)];
}

}  // namespace sluice::simulation
