#include "fleet_run.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/time.hpp"
#include "fleet_faults.hpp"
#include "native_caller.hpp"
#include "node.hpp"
#include "peer/peers.hpp"
#include "rest_caller.hpp"
#include "server/session_table.hpp"

namespace sluice::simulation {
namespace {

using io::Random;

constexpr int64_t run_ns = 12 * base::ns_per_s;
constexpr int64_t answers_ns_max = 30 * base::ns_per_s;  // after the faults
constexpr int64_t refunds_ns = 3 * base::ns_per_s;       // until the last refund has arrived
constexpr int64_t drain_ns_max = 20 * base::ns_per_s;
constexpr int64_t busy_step_ns_max = 200 * base::ns_per_us;
constexpr int64_t idle_step_ns_max = 10 * base::ns_per_ms;
constexpr uint32_t callers_max = 6;

Disturbances::Times times_of(const DrawnFleet& fleet) {
  // A ping leaves when a third of the time has passed, at a tick.
  const int64_t silence_ms = fleet.silence_ms * 2 / 3 - peer::Peers::tick_ms;
  const int64_t shortest_ms = std::min(silence_ms, fleet.timeout_ms);
  const int64_t way_ns = 4 * fleet.delay_ns_max;
  return {.noticed_ns = shortest_ms * base::ns_per_ms - way_ns - 60 * base::ns_per_ms,
          .apart_ns = 400 * base::ns_per_ms + way_ns,
          .recovery_ns = (2 * fleet.silence_ms + 1'700) * base::ns_per_ms + 5 * way_ns};
}

class FleetRun {
 public:
  FleetRun(uint64_t seed, const FleetKind& kind);
  FleetResult play();

 private:
  void step();
  void advance();
  void connect_some();
  void turn_callers();
  void settle();
  void drain();
  bool all_asleep();

  Random random_;
  Failure failure_;
  const DrawnFleet fleet_;
  io::SimNetwork network_;
  Disturbances disturbances_;
  FleetOracle oracle_;
  std::vector<std::unique_ptr<Node>> nodes_;
  FleetFaults faults_;
  CallerWorld world_;
  const double act_share_;
  std::vector<std::unique_ptr<Caller>> callers_;
  bool may_connect_ = true;
  uint64_t steps_ = 0;
};

FleetRun::FleetRun(uint64_t seed, const FleetKind& kind)
    : random_(seed),
      fleet_(draw_fleet(random_, kind)),
      network_(random_),
      disturbances_(fleet_.nodes, times_of(fleet_)),
      oracle_(fleet_, disturbances_, network_, failure_),
      faults_(fleet_, nodes_, disturbances_, oracle_, network_),
      world_{.random = random_, .fleet = fleet_, .oracle = oracle_, .failure = failure_},
      act_share_(random_.chance(0.5) ? 0.02 : 0.1) {
  network_.wires().set_delay(0, fleet_.delay_ns_max);
  for (uint16_t node = 0; node < fleet_.nodes; ++node) {
    nodes_.push_back(std::make_unique<Node>(node, fleet_, oracle_, network_, failure_));
  }
}

void FleetRun::connect_some() {
  if (!may_connect_ || callers_.size() >= callers_max || !random_.chance(0.05)) return;
  const auto number = static_cast<uint32_t>(random_.below(nodes_.size()));
  Node& node = *nodes_[number];
  if (!node.has_started()) return;
  if (random_.chance(0.6)) {
    callers_.push_back(
        std::make_unique<NativeCaller>(world_, number, node.connect(server::native_listener)));
  } else {
    callers_.push_back(
        std::make_unique<RestCaller>(world_, number, node.connect(server::http_listener)));
  }
}

void FleetRun::turn_callers() {
  for (const auto& caller : callers_) {
    if (!may_connect_ || random_.chance(act_share_)) caller->act();
    caller->receive();
  }
  std::erase_if(callers_, [](const auto& caller) { return caller->is_over(); });
}

bool FleetRun::all_asleep() {
  return std::ranges::all_of(nodes_,
                             [](const auto& node) { return !node->runs() || node->is_asleep(); });
}

// To the next moment at which anything can happen, but for clients.
void FleetRun::advance() {
  const int64_t now_ns = network_.clock().monotonic_ns;
  int64_t step_ns = random_.between(0, busy_step_ns_max);
  if (all_asleep()) {
    int64_t next_ns = std::min(faults_.due_ns(), network_.wires().due_ns(now_ns));
    for (const auto& node : nodes_) {
      if (node->runs()) next_ns = std::min(next_ns, node->wakes_ns());
    }
    const int64_t most_ns = random_.between(1, idle_step_ns_max);
    step_ns = std::clamp<int64_t>(next_ns - now_ns, 0, most_ns);
  }
  network_.advance(step_ns);
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node]->runs()) oracle_.add_served(node, step_ns);
  }
}

void FleetRun::step() {
  ++steps_;
  faults_.step();
  connect_some();
  network_.wires().move(network_.clock().monotonic_ns);
  for (const auto& node : nodes_) {
    if (node->runs()) node->step();
  }
  turn_callers();
  oracle_.check();
  advance();
}

void FleetRun::settle() {
  may_connect_ = false;
  faults_.calm();
  for (const auto& caller : callers_) caller->settle();
  const int64_t until_ns = network_.clock().monotonic_ns + answers_ns_max;
  while (!callers_.empty() && !failure_) {
    step();
    if (network_.clock().monotonic_ns > until_ns) failure_.report("clients have no answers");
  }
  const int64_t quiet_ns = network_.clock().monotonic_ns + FleetFaults::start_ns + refunds_ns;
  while (network_.clock().monotonic_ns < quiet_ns && !failure_) step();
  if (!failure_) oracle_.end();
}

void FleetRun::drain() {
  const int64_t until_ns = network_.clock().monotonic_ns + drain_ns_max;
  for (const auto& node : nodes_) {
    node->begin_drain();
    for (uint64_t steps = random_.below(200); steps > 0 && !failure_; --steps) step();
  }
  const auto is_drained = [](const auto& node) { return node->is_drained(); };
  while (!failure_ && !std::ranges::all_of(nodes_, is_drained)) {
    step();
    if (network_.clock().monotonic_ns <= until_ns) continue;
    std::string text = "does not drain:";
    for (const auto& node : nodes_) text += node->describe();
    failure_.report(text);
  }
  for (const auto& node : nodes_) {
    if (!failure_) node->check_idle();
  }
}

FleetResult FleetRun::play() {
  const int64_t start_ns = network_.clock().monotonic_ns;
  faults_.start_all();
  while (network_.clock().monotonic_ns < start_ns + run_ns && !failure_) step();
  if (!failure_) settle();
  if (!failure_) drain();
  return {.failure = failure_.text(),
          .calls = oracle_.calls_count(),
          .simulated_ns = network_.clock().monotonic_ns - start_ns,
          .steps = steps_,
          .events = oracle_.counts()};
}

}  // namespace

FleetResult simulate_fleet(uint64_t seed, const FleetKind& kind) {
  return FleetRun(seed, kind).play();
}

}  // namespace sluice::simulation
