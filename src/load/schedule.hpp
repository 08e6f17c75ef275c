// The times at which an open loop sends, whatever the server does.
// Shape:  the time between two frames is proportional to the entries of the first. A late frame
//         stays due, so that every scheduled time is part of the latencies.
// Units:  nanoseconds of the monotonic clock.
#pragma once

#include <cstdint>

namespace sluice::load {

class Schedule {
 public:
  // Starts one of several schedules with staggered begins that together have the whole rate.
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
  uint64_t entries_ = 0;  // due before the next frame
};

}  // namespace sluice::load
