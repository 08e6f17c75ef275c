// What has disturbed the connections between two nodes, and since when they may rely on them again.
// Flow:   FleetFaults, Fleet -> begin(), end(); the oracle asks.
// Shape:  a pair of nodes is disturbed while one of its routes is cut, or one of the two is paused,
//         crashed or starting. Short disturbances must go unnoticed; long and hard ones may be
//         answered by the policy, until the nodes have had time to connect again. The pair of a
//         node with itself is disturbed while the node is.
// Units:  nanoseconds of the simulated clock.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::simulation {

enum class Severity : uint8_t {
  soft,  // bytes only wait
  hard,  // connections end
};

class Disturbances {
 public:
  struct Times {
    int64_t noticed_ns = 0;   // a soft one may be noticed from here on
    int64_t apart_ns = 0;     // further apart, two are not one
    int64_t recovery_ns = 0;  // from its end until the nodes are connected again
  };

  Disturbances(uint32_t nodes, const Times& times);

  void begin(uint32_t one, uint32_t other, Severity severity, int64_t now_ns);
  void end(uint32_t one, uint32_t other, int64_t now_ns);
  // The same for all pairs with this node.
  void begin(uint32_t node, Severity severity, int64_t now_ns);
  void end(uint32_t node, int64_t now_ns);

  // Whether the policy may have answered something that was under way in this time.
  bool may_fail(uint32_t one, uint32_t other, int64_t from_ns, int64_t now_ns) const;
  int64_t recovery_ns() const { return times_.recovery_ns; }
  // Since when nothing disturbs the pair, at the earliest; now_ns: something does.
  int64_t quiet_since_ns(uint32_t one, uint32_t other, int64_t now_ns) const;

 private:
  struct Pair {
    uint32_t active = 0;
    int64_t begin_ns = INT64_MIN / 2;  // of the current one or the last
    int64_t end_ns = INT64_MIN / 2;    // of the last, if none is active
    bool is_hard = false;
    std::vector<std::pair<int64_t, int64_t>> down;  // earlier ones that may have been noticed
  };

  Pair& pair(uint32_t one, uint32_t other) { return pairs_[one * nodes_ + other]; }
  const Pair& pair(uint32_t one, uint32_t other) const { return pairs_[one * nodes_ + other]; }
  std::pair<int64_t, int64_t> last_down(const Pair& pair, int64_t now_ns) const;
  void begin_pair(Pair& pair, Severity severity, int64_t now_ns) const;

  const uint32_t nodes_;
  const Times times_;
  std::vector<Pair> pairs_;  // each in both orders
};

}  // namespace sluice::simulation
