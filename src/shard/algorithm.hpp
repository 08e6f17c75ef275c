// Names the algorithm that limits keys, in this one place. The key table, the handle slots and the
// key store work with any that models WindowPacking (window_cell.hpp).
#pragma once

#include "shard/fixed_window_packing.hpp"
#include "shard/window_cell.hpp"

namespace sluice::shard {

using WindowCell = BasicWindowCell<FixedWindowPacking>;
using Window = WindowCell::Window;

}  // namespace sluice::shard
