// The common part of all SimIos: every connection, one clock, one source of faults.
// Flow:   SimClient <-> SimLink <-> whichever SimIo holds the server's side. Between two SimIos:
//         SimIo <-> SimLink <-> SimWires <-> SimLink <-> SimIo.
// Shape:  a link's number serves as the descriptor that is released and adopted. Each SimIo has
//         its own listeners, as with SO_REUSEPORT, and its own view of the clock: that of its last
//         poll().
// Units:  nanoseconds.
// Errors: a descriptor that is adopted twice, or was not released, is ASSERTed.
// Lives:  longer than its SimIos and clients; links until the end, so that clients can look back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "io/sim/random.hpp"
#include "io/sim/sim_faults.hpp"
#include "io/sim/sim_link.hpp"
#include "io/sim/sim_wires.hpp"

namespace sluice::io {

inline constexpr base::Now sim_start{.monotonic_ns = base::ns_per_s,
                                     .wall_ns = 1'700'000'000 * base::ns_per_s};

// Does what other threads might do during a busy wait.
class PauseWatch {
 public:
  virtual void on_pause() = 0;

 protected:
  ~PauseWatch() = default;
};

class SimNetwork {
 public:
  static constexpr int64_t pause_ns = base::ns_per_us;

  explicit SimNetwork(Random& random, base::Now start = sim_start) noexcept
      : random_(random), faults_(random), clock_(start) {}
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  Random& random() noexcept { return random_; }
  Faults& faults() noexcept { return faults_; }
  // Connections between SimIos.
  SimWires& wires() noexcept { return wires_; }
  void cut(SimRoute route) { wires_.cut(route); }
  void heal(SimRoute route) { wires_.heal(route, clock_.monotonic_ns); }

  // Runs ahead of every SimIo's now(), which is that of its last poll().
  base::Now clock() const noexcept { return clock_; }
  void advance(int64_t ns) noexcept {
    ASSERT(ns >= 0);
    clock_.monotonic_ns += ns;
    clock_.wall_ns += ns;
  }
  // A moment of an Io's busy wait. Returns the time.
  int64_t pause() {
    advance(pause_ns);
    if (pause_watch_ != nullptr) pause_watch_->on_pause();
    return clock_.monotonic_ns;
  }
  void watch_pauses(PauseWatch& watch) noexcept { pause_watch_ = &watch; }
  // The wall clock may go back.
  void set_wall_clock(int64_t wall_ns) noexcept { clock_.wall_ns = wall_ns; }

  SimLink& link(uint32_t link) noexcept { return links_[link]; }
  uint32_t add_link() {
    links_.emplace_back();
    return static_cast<uint32_t>(links_.size() - 1);
  }

  // Between release() and adopt() or discard() a link has no slot.
  int release(uint32_t link) noexcept {
    ASSERT(!links_[link].released);
    ASSERT(!links_[link].server_closed);
    links_[link].released = true;
    ++released_count_;
    return static_cast<int>(link);
  }
  bool is_released(int fd) const noexcept {
    return fd >= 0 && static_cast<size_t>(fd) < links_.size() &&
           links_[static_cast<uint32_t>(fd)].released;
  }
  uint32_t take(int fd) noexcept {
    ASSERT(is_released(fd));
    const auto link = static_cast<uint32_t>(fd);
    links_[link].released = false;
    --released_count_;
    return link;
  }
  uint32_t released_count() const noexcept { return released_count_; }

 private:
  Random& random_;
  Faults faults_;
  base::Now clock_;
  std::deque<SimLink> links_;  // references to them stay good while it grows
  SimWires wires_{random_, links_};
  uint32_t released_count_ = 0;
  PauseWatch* pause_watch_ = nullptr;
};

}  // namespace sluice::io
