// The simulated network between nodes: who listens at which address, every connection between two
// SimIos, and what happens to them on the way.
// Flow:   SimIo::connect() -> SimWires -> SimWire; SimIo::poll() -> move().
// Shape:  a node is a number (SimOptions::node); the SimIos of one node are one machine's workers.
//         Delays and cuts belong to a route, one direction between two nodes.
// Errors: an address at which nobody ever listened is unreachable; where nobody listens any more,
//         it is refused; behind a route that is cut it times out.
// Lives:  part of a SimNetwork. Without a connection it draws no random number.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "io/io.hpp"
#include "io/sim/random.hpp"
#include "io/sim/sim_link.hpp"
#include "io/sim/sim_wire.hpp"

namespace sluice::io {

// A SimIo as who listens.
class SimBacklog {
 public:
  // False: this listener accepts no more.
  virtual bool enqueue(ListenerId listener, uint32_t link) = 0;

 protected:
  ~SimBacklog() = default;
};

class SimWires final : public SimSurroundings {
 public:
  struct Counts {
    uint64_t connects = 0;
    uint64_t refusals = 0;  // drawn ones
    uint64_t resets = 0;    // drawn ones
  };

  SimWires(Random& random, std::deque<SimLink>& links) noexcept : random_(random), links_(links) {}
  SimWires(const SimWires&) = delete;
  SimWires& operator=(const SimWires&) = delete;

  // Several may listen at one address, as workers with SO_REUSEPORT do.
  void listen(const PeerAddress& address, uint32_t node, SimBacklog& backlog, ListenerId listener);
  // It does not listen any more, at any address.
  void forget(SimBacklog& backlog) noexcept;

  // Returns the link of the end that connects.
  uint32_t connect(uint32_t node, const PeerAddress& address, int64_t now_ns);
  bool has(uint32_t link) noexcept { return find(link) != nullptr; }

  // The network.
  void set_delay(int64_t ns_min, int64_t ns_max) noexcept;  // of routes without their own
  void set_delay(SimRoute route, int64_t ns_min, int64_t ns_max);
  void set_refusal_rate(double rate) noexcept { refusal_rate_ = rate; }  // of connects
  void set_reset_rate(double rate) noexcept { reset_rate_ = rate; }      // in each move()
  void cut(SimRoute route) { own_path(route).cut = true; }
  void heal(SimRoute route, int64_t now_ns);
  bool is_cut(SimRoute route) const { return path(route).cut; }
  // Ends the connection of this link, from in between.
  void reset(uint32_t link);

  void move(int64_t now_ns);
  // When move() would do something: until then nodes may sleep. base::never_ns: nothing is under
  // way that is not cut off.
  int64_t due_ns(int64_t now_ns) const;

  size_t wires_count() const noexcept { return wires_.size(); }
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Listener {
    SimBacklog* backlog;
    ListenerId listener;
  };

  // Stays when nobody listens any more.
  struct Place {
    PeerAddress address;
    uint32_t node;
    std::vector<Listener> listeners;
  };

  struct Path {
    SimRoute route;
    int64_t delay_ns_min = -1;  // none of its own
    int64_t delay_ns_max = -1;
    bool cut = false;
  };

  SimPath path(SimRoute route) const override;
  Path& own_path(SimRoute route);
  Place* place_of(const PeerAddress& address) noexcept;
  uint32_t add_link();
  bool offer(const PeerAddress& address, uint32_t far) override;
  SimWire* find(uint32_t link) noexcept;

  Random& random_;
  std::deque<SimLink>& links_;
  std::vector<Place> places_;
  std::vector<Path> paths_;
  std::vector<std::unique_ptr<SimWire>> wires_;
  int64_t delay_ns_min_ = 0;
  int64_t delay_ns_max_ = 0;
  double refusal_rate_ = 0;
  double reset_rate_ = 0;
  Counts counts_;
};

}  // namespace sluice::io
