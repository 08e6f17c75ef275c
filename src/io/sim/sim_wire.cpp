#include "io/sim/sim_wire.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sluice::io {

SimWire::SimWire(Ends ends, Random& random, SimSurroundings& around, int64_t now_ns)
    : random_(random),
      around_(around),
      ends_(ends),
      begun_ns_(now_ns),
      near_(ends.near),
      far_(ends.far),
      there_{.route = ends.there, .from = near_, .to = far_},
      back_{.route = {.from = ends.there.to, .to = ends.there.from}, .from = far_, .to = near_} {
  push(there_, Kind::begin, now_ns);
}

void SimWire::move(int64_t now_ns) {
  check_limit(now_ns);
  for (Direction* direction : {&there_, &back_}) take(*direction, now_ns);
  for (Direction* direction : {&there_, &back_}) deliver(*direction, now_ns);
  for (Direction* direction : {&there_, &back_}) take(*direction, now_ns);  // answers
}

int64_t SimWire::due_ns(int64_t now_ns) const {
  if (is_given_up()) return now_ns;
  int64_t due_ns = base::never_ns;
  const bool waits = state_ == State::connecting || state_ == State::half_open;
  if (waits && near_.connect_failure == 0) due_ns = begun_ns_ + connect_limit_ns;
  for (const Direction* direction : {&there_, &back_}) {
    if (has_untaken(*direction)) return now_ns;
    if (direction->packets.empty() || around_.path(direction->route).cut) continue;
    due_ns = std::min(due_ns, direction->packets.front().due_ns);
  }
  return due_ns;
}

bool SimWire::is_over() const {
  if (!there_.packets.empty() || !back_.packets.empty()) return false;
  if (state_ == State::failed) return true;
  if (has_untaken(there_) || has_untaken(back_)) return false;
  return is_gone(near_) && is_gone(far_);
}

void SimWire::resume(SimRoute route, int64_t now_ns) {
  for (Direction* direction : {&there_, &back_}) {
    if (direction->route != route) continue;
    const SimPath path = around_.path(route);
    const int64_t least_ns = now_ns + random_.between(path.delay_ns_min, path.delay_ns_max);
    for (Packet& packet : direction->packets) packet.due_ns = std::max(packet.due_ns, least_ns);
    direction->last_due_ns = std::max(direction->last_due_ns, least_ns);
  }
}

void SimWire::reset() noexcept {
  for (SimLink* link : {&near_, &far_}) {
    link->abort();
    link->cut_by_network = true;
  }
  for (Direction* direction : {&there_, &back_}) {
    direction->packets.clear();
    direction->bytes = 0;
    direction->reset_taken = true;
  }
  if (state_ == State::connecting) state_ = State::failed;
}

size_t SimWire::room_bytes(const Direction& direction) noexcept {
  const size_t used =
      direction.bytes + (is_closed(direction.to) ? 0 : direction.to.to_server.size());
  return window_bytes - std::min(used, window_bytes);
}

bool SimWire::may_send(const Direction& direction) const noexcept {
  if (state_ == State::open) return true;
  return state_ == State::half_open && &direction == &back_;
}

bool SimWire::has_untaken(const Direction& direction) const noexcept {
  if (!may_send(direction)) return false;
  const SimLink& from = direction.from;
  if (from.reset) return !direction.reset_taken;
  if (!from.to_client.empty()) return room_bytes(direction) > 0;
  return from.server_finished && !direction.ended;
}

void SimWire::check_limit(int64_t now_ns) noexcept {
  if (is_given_up()) {
    there_.packets.clear();
    back_.packets.clear();
    state_ = State::failed;
  }
  const bool waits = state_ == State::connecting || state_ == State::half_open;
  if (!waits || near_.connect_failure != 0 || now_ns < begun_ns_ + connect_limit_ns) return;
  near_.connect_failure = -ETIMEDOUT;
}

void SimWire::take(Direction& direction, int64_t now_ns) {
  if (!has_untaken(direction)) return;
  SimLink& from = direction.from;
  if (from.reset) {
    from.to_client.clear();
    direction.reset_taken = true;
    return push(direction, Kind::reset, now_ns);
  }
  while (!from.to_client.empty() && room_bytes(direction) > 0) {
    const size_t most = std::min(from.to_client.size(), room_bytes(direction));
    const auto piece = from.to_client.view().first(1 + random_.below(most));
    push(direction, Kind::bytes, now_ns, {piece.begin(), piece.end()});
    from.to_client.pop(piece.size());
  }
  if (!from.to_client.empty() || !from.server_finished || direction.ended) return;
  direction.ended = true;
  push(direction, Kind::end, now_ns);
}

void SimWire::push(Direction& direction, Kind kind, int64_t now_ns, std::vector<std::byte> bytes) {
  const SimPath path = around_.path(direction.route);
  const int64_t due_ns = now_ns + random_.between(path.delay_ns_min, path.delay_ns_max);
  direction.last_due_ns = std::max(direction.last_due_ns, due_ns);
  direction.bytes += bytes.size();
  direction.packets.push_back(
      {.kind = kind, .due_ns = direction.last_due_ns, .bytes = std::move(bytes)});
}

void SimWire::deliver(Direction& direction, int64_t now_ns) {
  if (around_.path(direction.route).cut) return;
  while (!direction.packets.empty() && direction.packets.front().due_ns <= now_ns) {
    const Packet packet = std::move(direction.packets.front());
    direction.packets.pop_front();
    direction.bytes -= packet.bytes.size();
    arrive(direction, packet, now_ns);
  }
}

void SimWire::arrive(Direction& direction, const Packet& packet, int64_t now_ns) {
  SimLink& to = direction.to;
  switch (packet.kind) {
    case Kind::begin:
      return begin_at_far(now_ns);
    case Kind::acceptance:
      state_ = State::open;
      is_gone(to) ? to.abort() : void(to.established = true);
      return;
    case Kind::refusal:
      state_ = State::failed;
      if (!is_gone(to)) to.connect_failure = -ECONNREFUSED;
      return;
    case Kind::bytes:
      if (is_closed(to)) return to.abort();  // answered by a reset
      if (!to.reset) to.to_server.push(packet.bytes);
      return;
    case Kind::end:
      to.client_finished = true;
      return;
    case Kind::reset:
      opposite(direction).reset_taken = true;
      return to.abort();
  }
}

void SimWire::begin_at_far(int64_t now_ns) {
  const bool accepted = around_.offer(ends_.address, ends_.far_link);
  if (accepted) state_ = State::half_open;
  push(back_, accepted ? Kind::acceptance : Kind::refusal, now_ns);
}

}  // namespace sluice::io
