#include "fleet_faults.hpp"

#include <algorithm>

#include "../pick.hpp"
#include "base/time.hpp"

namespace sluice::simulation {
namespace {

constexpr int64_t short_ns_max = 250 * base::ns_per_ms;
constexpr int64_t long_ns_max = 3 * base::ns_per_s;
constexpr double reset_rate = 0.3;

}  // namespace

FleetFaults::FleetFaults(const DrawnFleet& fleet, std::vector<std::unique_ptr<Node>>& nodes,
                         Disturbances& disturbances, FleetOracle& oracle, io::SimNetwork& network)
    : fleet_(fleet),
      nodes_(nodes),
      disturbances_(disturbances),
      oracle_(oracle),
      network_(network),
      random_(network.random()),
      pause_ns_max_(
          pick<int64_t, 3>(random_, {base::ns_per_s, 3 * base::ns_per_s, 8 * base::ns_per_s})),
      long_share_(pick<double, 3>(random_, {0, 0.3, 0.7})),
      pauses_(fleet.nodes) {}

void FleetFaults::start_all() {
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    disturbances_.begin(node, Severity::hard, now_ns());
    start(node);
  }
  plan_next();
}

// Its disturbance has begun already.
void FleetFaults::start(uint32_t node) {
  nodes_[node]->start();
  mend_later(start_ns, [this, node] { disturbances_.end(node, now_ns()); });
}

void FleetFaults::plan_next() {
  next_ns_ = now_ns() + random_.between(0, pause_ns_max_);
}

void FleetFaults::mend_later(int64_t time_ns, std::function<void()> mend) {
  mendings_.push_back({.due_ns = now_ns() + time_ns, .mend = std::move(mend)});
}

int64_t FleetFaults::due_ns() const {
  int64_t due_ns = is_calm_ || !fleet_.has_faults ? INT64_MAX : next_ns_;
  for (const Mending& mending : mendings_) due_ns = std::min(due_ns, mending.due_ns);
  return due_ns;
}

void FleetFaults::step() {
  network_.wires().set_reset_rate(0);
  for (size_t i = 0; i < mendings_.size();) {
    if (mendings_[i].due_ns > now_ns()) {
      ++i;
      continue;
    }
    const auto mend = std::move(mendings_[i].mend);
    mendings_.erase(mendings_.begin() + static_cast<ptrdiff_t>(i));
    mend();  // may add others
  }
  if (is_calm_ || !fleet_.has_faults || now_ns() < next_ns_) return;
  begin_one();
  plan_next();
}

void FleetFaults::calm() {
  is_calm_ = true;
  for (Mending& mending : mendings_) mending.due_ns = std::min(mending.due_ns, now_ns() + start_ns);
}

int64_t FleetFaults::drawn_time_ns() {
  return 1 + random_.between(0, random_.chance(long_share_) ? long_ns_max : short_ns_max);
}

void FleetFaults::begin_one() {
  const uint64_t dice = random_.below(100);
  if (dice < 45) return cut();
  if (dice < 75) return pause();
  if (dice < 85) return reset();
  crash();
}

void FleetFaults::cut() {
  const auto from = static_cast<uint32_t>(random_.below(nodes_.size()));
  const auto to =
      static_cast<uint32_t>((from + 1 + random_.below(nodes_.size() - 1)) % nodes_.size());
  const int64_t time_ns = drawn_time_ns();
  cut_route(from, to, time_ns);
  if (random_.chance(0.5)) cut_route(to, from, time_ns);
}

void FleetFaults::cut_route(uint32_t from, uint32_t to, int64_t time_ns) {
  const io::SimRoute route{.from = from, .to = to};
  if (network_.wires().is_cut(route)) return;
  oracle_.trace("route " + std::to_string(from) + " -> " + std::to_string(to) + " is cut");
  oracle_.count(FleetEvent::cut);
  network_.cut(route);
  disturbances_.begin(from, to, Severity::soft, now_ns());
  oracle_.begin_silence(from, to);
  mend_later(time_ns, [this, route, since_ns = now_ns()] {
    oracle_.trace("route " + std::to_string(route.from) + " -> " + std::to_string(route.to) +
                  " heals");
    network_.heal(route);
    disturbances_.end(route.from, route.to, now_ns());
    oracle_.end_silence(route.from, route.to);
    oracle_.note_healed(route.from, route.to, since_ns);
  });
}

void FleetFaults::pause() {
  const auto node = static_cast<uint32_t>(random_.below(nodes_.size()));
  if (!nodes_[node]->runs()) return;
  oracle_.trace("node " + std::to_string(node) + " pauses");
  oracle_.count(FleetEvent::paused);
  nodes_[node]->set_paused(true);
  disturbances_.begin(node, Severity::soft, now_ns());
  for_others(node, [&](uint32_t other) { oracle_.begin_silence(node, other); });
  mend_later(drawn_time_ns(), [this, node, number = pauses_[node]] {
    disturbances_.end(node, now_ns());
    if (pauses_[node] == number) end_pause(node);  // it may have crashed since
  });
}

void FleetFaults::end_pause(uint32_t node) {
  oracle_.trace("node " + std::to_string(node) + " goes on");
  ++pauses_[node];
  nodes_[node]->set_paused(false);
  for_others(node, [&](uint32_t other) { oracle_.end_silence(node, other); });
}

void FleetFaults::crash() {
  const auto node = static_cast<uint32_t>(random_.below(nodes_.size()));
  if (!nodes_[node]->has_started()) return;
  oracle_.trace("node " + std::to_string(node) + " crashes");
  oracle_.count(FleetEvent::crashed);
  disturbances_.begin(node, Severity::hard, now_ns());
  if (nodes_[node]->is_paused()) end_pause(node);
  nodes_[node]->crash();
  mend_later(drawn_time_ns(), [this, node] {
    oracle_.trace("node " + std::to_string(node) + " starts again");
    oracle_.count(FleetEvent::restarted);
    start(node);
  });
}

// Some of the connections that there are, in the next step.
void FleetFaults::reset() {
  oracle_.trace("connections are reset");
  const uint64_t before = network_.wires().counts().resets;
  network_.wires().set_reset_rate(reset_rate);
  network_.wires().move(now_ns());
  network_.wires().set_reset_rate(0);
  oracle_.count(FleetEvent::reset, network_.wires().counts().resets - before);
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    disturbances_.begin(node, Severity::hard, now_ns());
    disturbances_.end(node, now_ns());
  }
}

}  // namespace sluice::simulation
