#include "peer.hpp"

#include <algorithm>

namespace sluice::simulation {

Peer::Peer(World& world, io::ListenerId listener)
    : world_(world),
      client_(world.any_io().connect(listener)),
      greedy_(world.random.chance(world.greedy_share)) {
  ++world_.operations;
}

void Peer::fail(const std::string& text) {
  std::string circumstances = half_closed_ ? ", half closed" : "";
  if (world_.draining) circumstances += ", while draining";
  if (world_.time_outs) circumstances += ", with time-outs";
  if (may_be_ended_) circumstances += ", as it provoked";
  world_.failure.report("client " + std::to_string(client_.link_id()) + " " + describe() + " " +
                        text + circumstances);
  over_ = true;
}

std::string Peer::describe_state() const {
  return "client " + std::to_string(client_.link_id()) + " " + describe() +
         (awaits_answer() ? " waits for an answer" : " waits for no answer") +
         (half_closed_ ? ", has half closed, " : ", ") +
         std::to_string(client_.undelivered_bytes()) + " bytes of it are under way, " +
         std::to_string(outbox_.size()) + " unsent, " + std::to_string(inbox_.size()) +
         " bytes of an answer have arrived";
}

void Peer::trace(const std::string& text) const {
  world_.oracle.trace("client " + std::to_string(client_.link_id()) + " " + text);
}

void Peer::send(std::span<const std::byte> bytes) {
  outbox_.insert(outbox_.end(), bytes.begin(), bytes.end());
}

void Peer::act() {
  if (over_) return;
  io::Random& random = world_.random;
  if (random.chance(0.05)) reads_ = !greedy_ && !reads_;
  if (!half_closed_) {
    if (random.chance(0.8)) ask();
    write_some(random.chance(0.8));
  }
  if (random.chance(0.01)) leave();
}

void Peer::write_some(bool all) {
  if (outbox_.empty() || half_closed_) return;
  const size_t bytes = all ? outbox_.size() : world_.random.below(outbox_.size() + 1);
  client_.write(std::span(outbox_).first(bytes));
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<ptrdiff_t>(bytes));
}

// The peer may have sent half of a request.
void Peer::leave() {
  ++world_.operations;
  switch (world_.random.below(3)) {
    case 0:
      client_.reset();
      over_ = true;
      break;
    case 1:
      client_.close();
      over_ = true;
      break;
    default:
      if (half_closed_) break;
      write_some(true);
      half_closed_ = true;
      client_.shutdown_write();
      break;
  }
}

void Peer::vanish() {
  if (over_) return;
  world_.random.chance(0.5) ? client_.reset() : client_.close();
  over_ = true;
}

void Peer::receive() {
  if (over_ || (!reads_ && !settling_)) return;
  if (client_.refused()) return end();
  client_.read(inbox_, settling_ ? SIZE_MAX : 1 + world_.random.below(32 * 1024));
  if (!inbox_.empty()) take_answers();
  if (over_) return;
  if (client_.was_reset()) {
    const bool explained = client_.was_cut_by_network() || may_be_ended_ || world_.draining ||
                           world_.time_outs || world_.connections_full;
    if (!explained) return fail("was reset for no reason");
    return end();
  }
  if (client_.end_of_stream()) {
    const bool explained = half_closed_ || may_be_ended_ || world_.draining || world_.time_outs ||
                           world_.connections_full;
    if (!explained) return fail("was ended for no reason");
    // A connection that is cut off may end in the middle of an answer.
    if (!inbox_.empty() && !world_.force_closed && !world_.time_outs) {
      return fail("was left with half an answer");
    }
    check_graceful_end();
    return end();
  }
  if (settling_ && !awaits_answer() && !half_closed_) {
    half_closed_ = true;
    client_.shutdown_write();
  }
}

void Peer::settle() {
  if (over_) return;
  settling_ = true;
  write_some(true);
}

void Peer::end() {
  if (!over_) client_.close();
  over_ = true;
}

std::string Peer::random_key() {
  // A few keys get most of the requests.
  const uint64_t most = world_.random.chance(0.7) ? 1 + world_.keys.size() / 4 : world_.keys.size();
  return world_.keys[world_.random.below(std::min<uint64_t>(most, world_.keys.size()))];
}

AskedEntry Peer::random_entry(bool may_wait) {
  io::Random& random = world_.random;
  AskedEntry entry{.key = random_key()};
  if (random.chance(0.3)) entry.cost = 1 + static_cast<uint32_t>(random.below(world_.cost_max));
  if (random.chance(0.05)) {
    entry.max_requests = 1 + static_cast<uint32_t>(random.below(world_.limit_max));
  }
  if (random.chance(0.05)) {
    entry.max_requests_in_queue = static_cast<uint32_t>(random.below(world_.limit_max));
  }
  entry.may_wait = may_wait && random.chance(0.5);
  return entry;
}

}  // namespace sluice::simulation
