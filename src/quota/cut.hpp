// What a worker passes to its shard's store at a cut of what survives a restart, and gets back.
// Flow:   QuotaDecider::begin_cut(sink, CutStart) -> hand_over() until nothing is left -> CutFacts,
//         for the header of the cut's parts.
// Lives:  values.
#pragma once

#include <cstdint>

namespace sluice::quota {

struct CutStart {
  uint64_t epoch = 0;  // grows with each cut, over restarts
  // Begins a lap over everything that lives, unless one is under way.
  bool begins_lap = false;
};

// Of a cut that is complete.
struct CutFacts {
  uint64_t order = 0;            // not before any in the records
  int64_t calendar_wall_ns = 0;  // likewise, of calendars
  uint64_t reset_all_order = 0;  // of the last reset of all subjects before the cut; 0: none
  uint64_t alive_count = 0;      // records that a lap would write, or a few more
  // Records of earlier epochs are superseded by this one and later ones; 0: none are.
  uint64_t complete_since_epoch = 0;
};

}  // namespace sluice::quota
