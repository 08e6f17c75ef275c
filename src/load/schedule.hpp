// When an open loop asks: at fixed times, whatever the server does meanwhile.
// Shape:  a frame is due as many entries' time after the one before as that one had. What is late
//         stays due, so that no time of sending is left out of the latencies.
// Units:  nanoseconds of the monotonic clock.
#pragma once

#include <cstdint>

namespace sluice::load {

class Schedule {
 public:
  // One of several that begin one after the other and together have the whole rate.
  void start(uint64_t begin_ns, double ns_per_entry) noexcept {
    begin_ns_ = begin_ns;
    ns_per_entry_ = ns_per_entry;
    entries_ = 0;
  }

  uint64_t next_ns() const noexcept {
    return begin_ns_ + static_cast<uint64_t>(static_cast<double>(entries_) * ns_per_entry_);
  }
  void advance(uint32_t entries) noexcept { entries_ += entries; }

 private:
  uint64_t begin_ns_ = 0;
  double ns_per_entry_ = 0;
  uint64_t entries_ = 0;  // that were due before the next frame
};

}  // namespace sluice::load
