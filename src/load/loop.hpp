// Keeps every connection's window full (closed loop), or sends at fixed times (open loop).
// Flow:   Stream -> Sender::ask -> server -> Sender::take_answers -> Counters.
// Shape:  one thread over non-blocking sockets and epoll. In an open loop each sender has its own
//         schedule, and latency counts from a frame's scheduled time. The schedules are staggered:
//         the senders' frames are due one after the other, at equal distances.
// Errors: sluicegate::Error when the server refuses, hangs up or sends an answer to no request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "load/schedule.hpp"
#include "load/sender.hpp"

namespace sluice::load {

class Loop {
 public:
  // Calls `goes_on` with the time once per iteration; the loop ends when it returns false.
  using GoesOn = std::function<bool(uint64_t now_ns)>;

  // `rate` decisions per second over all senders, in frames of so many; 0: a closed loop.
  Loop(std::vector<std::unique_ptr<Sender>> senders, double rate, uint32_t frame_entries);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run(const GoesOn& goes_on);
  // Waits for the answers to all frames in flight; returns how many did not come in time.
  size_t drain(double seconds_max);

  void restart_counters();
  const Counters& counters();
  // How far the open loop is behind its schedule.
  double behind_s() const noexcept;

 private:
  struct Place {
    std::unique_ptr<Sender> sender;
    Schedule schedule;
  };

  void watch_senders();
  void start_schedules();
  int wait_ms(uint64_t now_ns) const noexcept;
  void turn(bool asking);
  void serve(Place& place, bool asking);
  void fill(Place& place);
  void fill_all();
  size_t frames_in_flight() const noexcept;
  sluicegate::Traffic traffic() const noexcept;

  std::vector<Place> places_;
  double rate_;
  uint32_t frame_entries_;
  int epoll_ = -1;
  bool held_back_ = false;
  std::unique_ptr<Counters> counters_;
  sluicegate::Traffic traffic_before_;
  uint64_t calls_ = 0;  // of epoll_wait
};

}  // namespace sluice::load
