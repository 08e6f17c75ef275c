#include "io/sim/sim_wires.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"

namespace sluice::io {

void SimWires::listen(const PeerAddress& address, uint32_t node, SimBacklog& backlog,
                      ListenerId listener) {
  Place* place = place_of(address);
  if (place == nullptr) {
    place = &places_.emplace_back(Place{.address = address, .node = node, .listeners = {}});
  }
  ASSERT(place->node == node);  // addresses do not move
  place->listeners.push_back({.backlog = &backlog, .listener = listener});
}

void SimWires::forget(SimBacklog& backlog) noexcept {
  for (Place& place : places_) {
    std::erase_if(place.listeners, [&](const Listener& one) { return one.backlog == &backlog; });
  }
}

uint32_t SimWires::connect(uint32_t node, const PeerAddress& address, int64_t now_ns) {
  ++counts_.connects;
  const uint32_t near = add_link();
  const Place* const place = place_of(address);
  if (place == nullptr) {
    links_[near].connect_failure = -EHOSTUNREACH;
    return near;
  }
  const uint32_t far = add_link();
  const SimWire::Ends ends{.near = links_[near],
                           .far = links_[far],
                           .there = {.from = node, .to = place->node},
                           .far_link = far,
                           .address = address};
  wires_.push_back(std::make_unique<SimWire>(ends, random_, *this, now_ns));
  return near;
}

void SimWires::set_delay(int64_t ns_min, int64_t ns_max) noexcept {
  ASSERT(0 <= ns_min && ns_min <= ns_max);
  delay_ns_min_ = ns_min;
  delay_ns_max_ = ns_max;
}

void SimWires::set_delay(SimRoute route, int64_t ns_min, int64_t ns_max) {
  ASSERT(0 <= ns_min && ns_min <= ns_max);
  Path& path = own_path(route);
  path.delay_ns_min = ns_min;
  path.delay_ns_max = ns_max;
}

void SimWires::heal(SimRoute route, int64_t now_ns) {
  Path& path = own_path(route);
  if (!path.cut) return;
  path.cut = false;
  for (const auto& wire : wires_) wire->resume(route, now_ns);
}

void SimWires::reset(uint32_t link) {
  SimWire* const wire = find(link);
  ASSERT(wire != nullptr);
  wire->reset();
}

void SimWires::move(int64_t now_ns) {
  if (wires_.empty()) return;
  for (const auto& wire : wires_) {
    if (wire->is_open() && random_.chance(reset_rate_)) {
      ++counts_.resets;
      wire->reset();
    }
    wire->move(now_ns);
  }
  std::erase_if(wires_, [](const auto& wire) { return wire->is_over(); });
}

int64_t SimWires::due_ns(int64_t now_ns) const {
  int64_t due_ns = base::never_ns;
  for (const auto& wire : wires_) due_ns = std::min(due_ns, wire->due_ns(now_ns));
  return due_ns;
}

SimPath SimWires::path(SimRoute route) const {
  SimPath path{.delay_ns_min = delay_ns_min_, .delay_ns_max = delay_ns_max_};
  const auto own = std::ranges::find(paths_, route, &Path::route);
  if (own == paths_.end()) return path;
  path.cut = own->cut;
  if (own->delay_ns_min < 0) return path;
  path.delay_ns_min = own->delay_ns_min;
  path.delay_ns_max = own->delay_ns_max;
  return path;
}

SimWires::Path& SimWires::own_path(SimRoute route) {
  const auto own = std::ranges::find(paths_, route, &Path::route);
  return own == paths_.end() ? paths_.emplace_back(Path{.route = route}) : *own;
}

SimWires::Place* SimWires::place_of(const PeerAddress& address) noexcept {
  const auto place = std::ranges::find(places_, address, &Place::address);
  return place == places_.end() ? nullptr : &*place;
}

uint32_t SimWires::add_link() {
  links_.emplace_back();
  return static_cast<uint32_t>(links_.size() - 1);
}

bool SimWires::offer(const PeerAddress& address, uint32_t far) {
  const Place& place = *place_of(address);
  if (place.listeners.empty()) return false;
  if (random_.chance(refusal_rate_)) {
    ++counts_.refusals;
    return false;
  }
  const Listener& one = place.listeners[random_.below(place.listeners.size())];
  return one.backlog->enqueue(one.listener, far);
}

SimWire* SimWires::find(uint32_t link) noexcept {
  const auto wire =
      std::ranges::find_if(wires_, [&](const auto& each) { return each->has(links_[link]); });
  return wire == wires_.end() ? nullptr : wire->get();
}

}  // namespace sluice::io
