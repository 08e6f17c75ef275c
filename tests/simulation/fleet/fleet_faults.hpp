// Disturbs a fleet: cuts routes, ends connections, pauses and crashes nodes, and mends all that
// after a while.
// Flow:   the run -> step(); calm() at the end mends everything.
// Shape:  each run has its own kinds of disturbances, and how often they come.
// Units:  nanoseconds of the simulated clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "disturbances.hpp"
#include "fleet_oracle.hpp"
#include "node.hpp"

namespace sluice::simulation {

class FleetFaults {
 public:
  // How long a node that has started may wait for others before it serves.
  static constexpr int64_t start_ns = 2'100 * base::ns_per_ms;

  FleetFaults(const DrawnFleet& fleet, std::vector<std::unique_ptr<Node>>& nodes,
              Disturbances& disturbances, FleetOracle& oracle, io::SimNetwork& network);

  void start_all();
  void step();
  void calm();
  // When step() has something to do.
  int64_t due_ns() const;

 private:
  struct Mending {
    int64_t due_ns;
    std::function<void()> mend;
  };

  void begin_one();
  void cut();
  void cut_route(uint32_t from, uint32_t to, int64_t time_ns);
  void pause();
  void end_pause(uint32_t node);
  void crash();
  void reset();
  void start(uint32_t node);
  template <typename Call>
  void for_others(uint32_t node, Call call) {
    for (uint32_t other = 0; other < nodes_.size(); ++other) {
      if (other != node) call(other);
    }
  }
  void mend_later(int64_t time_ns, std::function<void()> mend);
  int64_t drawn_time_ns();
  void plan_next();
  int64_t now_ns() const { return network_.clock().monotonic_ns; }

  const DrawnFleet& fleet_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  Disturbances& disturbances_;
  FleetOracle& oracle_;
  io::SimNetwork& network_;
  io::Random& random_;
  const int64_t pause_ns_max_;  // between two disturbances
  const double long_share_;
  std::vector<uint32_t> pauses_;  // by node: how many have ended
  int64_t next_ns_ = 0;
  bool is_calm_ = false;
  std::vector<Mending> mendings_;
};

}  // namespace sluice::simulation
