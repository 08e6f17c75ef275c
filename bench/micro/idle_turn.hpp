// Turns of a worker that has nothing to do, to count their instructions: they must not depend on
// how many other shards there are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::micro {

// Returns the number of turns that were measured.
size_t idle_turns(uint32_t shards_count);

}  // namespace sluice::micro
