// The faults of the simulated kernel and network: their rates, and how often each fired.
// Flow:   a run's seed -> Faults::draw() -> SimIo asks fires() wherever a fault could happen.
// Shape:  every run has its own rates, many of them zero: rare combinations come up by themselves
//         ("swarm testing").
// Lives:  one per run; the counts are added up over runs by the test.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "io/sim/random.hpp"

namespace sluice::io {

enum class Fault : uint8_t {
  split_receive,      // fewer bytes are delivered than have arrived
  delayed_receive,    // bytes that have arrived are delivered in a later poll
  no_buffer,          // a receive finds no free buffer and ends
  multishot_ended,    // a receive delivers its bytes, and ends without cause
  late_bytes,         // bytes are delivered although receive_stop() was called
  short_send,         // the kernel takes a part of a send
  delayed_sent,       // a send is done, and reported in a later poll
  peer_window_full,   // a send waits for a peer that does not read
  reset_idle,         // the connection is reset while nothing is under way
  reset_mid_receive,  // ... with bytes that have arrived, and are lost
  reset_mid_send,     // ... while a send is in flight
  reordered,          // completions of different sockets come in another order
  accept_failed,      // out of descriptors
  delayed_closed,     // the kernel holds a closed socket for longer
  spurious_wake,      // `woken` without a call of wake()
  buffers_gone,       // no receive finds a buffer for many polls
  overflow,           // completions come late and in bursts, and every receive ends
  clock_jump,         // the monotonic clock jumps forward
  wall_clock_back,    // the wall clock is set back
  // Between workers.
  delayed_wake,        // wake() is seen by a later poll
  release_late_bytes,  // bytes are delivered although release() was called
  delayed_released,    // the kernel holds a released socket for longer
  reset_in_transit,    // the connection is reset before it is adopted
  adopt_refused,       // there is no slot for a connection
};
inline constexpr uint32_t faults_count = 24;

std::string_view fault_name(Fault fault) noexcept;

class Faults {
 public:
  explicit Faults(Random& random) noexcept : random_(random) {}  // none fires
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // Rates of this run: a quarter of the faults are off, the others anything up to their worst.
  void draw() noexcept;
  void set_rate(Fault fault, double rate) noexcept { rates_[index(fault)] = rate; }

  // From now on none fires, so that everything under way completes.
  void calm() noexcept { rates_.fill(0); }

  bool fires(Fault fault) noexcept {
    const double rate = rates_[index(fault)];
    return rate > 0 && random_.chance(rate);
  }
  // Separate from fires(): a fault counts where it made a difference.
  void count(Fault fault) noexcept { ++counts_[index(fault)]; }
  uint64_t counted(Fault fault) const noexcept { return counts_[index(fault)]; }

 private:
  static uint32_t index(Fault fault) noexcept { return static_cast<uint32_t>(fault); }

  Random& random_;
  std::array<double, faults_count> rates_{};
  std::array<uint64_t, faults_count> counts_{};
};

}  // namespace sluice::io
