// The times of a part in a frame between nodes: nanoseconds from now on, or one of these.
#pragma once

#include <cstdint>

namespace sluice::wire {

inline constexpr int64_t never_in_ns = -1;
inline constexpr int64_t unset_in_ns = -2;

}  // namespace sluice::wire
