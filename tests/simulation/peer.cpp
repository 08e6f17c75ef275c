#include "peer.hpp"

#include <algorithm>

#include "pick.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t pauses_max = 400;

// The client has sent what no connection survives.
bool is_of_last_request(ErrorCode code) {
  return code == ErrorCode::malformed || code == ErrorCode::hello_expected ||
         code == ErrorCode::unexpected_hello;
}

}  // namespace

Peer::Peer(World& world, io::ListenerId listener, bool is_bystander)
    : world_(world),
      client_(world.any_io().connect(listener)),
      is_bystander_(is_bystander),
      greedy_(world.random.chance(world.greedy_share)) {
  ++world_.operations;
  record().listener = listener;
}

void Peer::fail(const std::string& text) {
  std::string circumstances = half_closed_ ? ", half closed" : "";
  if (is_draining()) circumstances += ", while draining";
  if (world_.time_outs) circumstances += ", with time-outs";
  if (was_ended_for(UINT32_MAX)) circumstances += ", ended by " + reasons_text(record().reasons);
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

void Peer::send(std::span<const std::byte> bytes, size_t head_bytes, SentRequest::Frame frame) {
  outbox_.insert(outbox_.end(), bytes.begin(), bytes.end());
  const uint64_t begin = record().asked_bytes;
  record().asked_bytes = begin + bytes.size();
  record().not_whole.push_back(
      {.head_end = begin + head_bytes, .end = begin + bytes.size(), .frame = frame});
}

void Peer::end_with_next_request() {
  record().last_request_from = std::min(record().last_request_from, record().asked_bytes);
}

void Peer::act() {
  if (over_) return;
  io::Random& random = world_.random;
  if (random.chance(0.05)) reads_ = !greedy_ && !reads_;
  if (pauses_ > 0) {
    --pauses_;
  } else if (!half_closed_) {
    if (random.chance(0.8)) ask();
    const bool pauses = world_.time_outs && random.chance(0.02);
    if (pauses) pauses_ = 1 + static_cast<uint32_t>(random.below(pauses_max));
    write_some(random.chance(pauses ? 0.5 : 0.8));
  }
  note_open();
  if (random.chance(0.01) || is_hasty()) leave();
}

void Peer::note_open() {
  record().open_end = open_end();
  record().undecided_end = undecided_end();
  record().has_waiter = has_waiter();
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

void Peer::attend() {
  write_some(true);
  reads_ = true;
}

bool Peer::awaits_bystanders_answer() {
  const bool is_served = record().is_open() && !world_.may_stand_still(record().shard);
  return is_bystander_ && !over_ && is_served && undecided_end() != no_offset && !has_waiter();
}

// A bystander asks for one of its own keys instead.
std::string Peer::own_key(std::string key) {
  const std::vector<std::string>& own = world_.bystanders_keys;
  if (!is_bystander_ || std::ranges::count(own, key) > 0) return key;
  return own[world_.random.below(own.size())];
}

std::string Peer::random_key() {
  return own_key(simulation::random_key(world_));
}

AskedEntry Peer::random_entry(bool may_wait) {
  AskedEntry entry = simulation::random_entry(world_, may_wait);
  entry.key = own_key(std::move(entry.key));
  return entry;
}

AskedEntry Peer::random_acquire(bool may_wait) {
  AskedEntry entry = simulation::random_acquire(world_, may_wait);
  entry.key = own_key(std::move(entry.key));
  return entry;
}

void Peer::vanish() {
  if (over_) return;
  world_.random.chance(0.5) ? client_.reset() : client_.close();
  over_ = true;
}

void Peer::receive() {
  if (over_) return;
  check_turn();
  if (over_) return;
  note_open();
  if (!reads_ && !settling_) return;
  if (client_.refused()) return end();
  client_.read(inbox_, settling_ ? SIZE_MAX : 1 + world_.random.below(32 * 1024));
  if (!inbox_.empty()) take_answers();
  note_open();
  if (over_) return;
  const bool is_closed = record().side > ConnectionRecord::Side::finished;
  if (client_.was_reset()) {
    if (!client_.was_cut_by_network() && !is_closed) return fail("was reset for no reason");
    return end();
  }
  if (client_.end_of_stream()) {
    if (record().was_cut_off) return end();  // maybe in the middle of an answer
    if (!record().was_ended()) return fail("was ended for no reason");
    if (!inbox_.empty()) return fail("was left with half an answer");
    check_announced_end();
    check_graceful_end();
    if (!lingers_ || is_closed) end();
    return;
  }
  if (settling_ && !awaits_answer() && !half_closed_) {
    half_closed_ = true;
    client_.shutdown_write();
  }
}

bool Peer::take_ending_error(ErrorCode code) {
  const bool is_expected = code == ErrorCode::too_many_connections ? record().refused
                           : code == ErrorCode::hello_timeout      ? !record().was_welcomed
                           : code == ErrorCode::frame_timeout      ? record().was_welcomed
                           : code == ErrorCode::draining ? is_draining() && !record().was_welcomed
                                                         : false;
  if (is_expected) end_by(code);
  return is_expected;
}

void Peer::take_go_away() {
  if (!is_draining() || got_go_away_) fail("got GoAway for no reason");
  got_go_away_ = true;
}

// What the server has said before it ended the connection must be why it did; and some reasons it
// has to say.
void Peer::check_announced_end() {
  const bool is_native = record().listener == server::native_listener;
  const uint32_t announced =
      why::refused | why::drain_answer | why::last_request | (is_native ? why::header_timeout : 0);
  const bool has_said = !is_native && record().saw_last_answer;
  const uint32_t reason = ended_by_ == ErrorCode::too_many_connections ? why::refused
                          : ended_by_ == ErrorCode::draining           ? why::drain_answer
                          : is_of_last_request(ended_by_)              ? why::last_request
                          : ended_by_ != ErrorCode::none               ? why::header_timeout
                          : has_said                                   ? UINT32_MAX
                                                                       : ~announced;
  if (!was_ended_for(reason)) fail("was ended with " + std::string(error_name(ended_by_)));
  if (record().was_open_at_drain && !got_go_away_) fail("got no GoAway");
}

uint64_t Peer::answered_until_end(bool waits) const {
  const bool was_never_served = record().refused || ended_by_ == ErrorCode::draining;
  if (was_never_served) return 0;
  // Its client left: the server did not wait for what else it had sent.
  if (was_ended_for(why::peer_left) && waits) return 0;
  uint64_t until = record().delivered_at_end;
  if (was_ended_for(why::last_request)) until = std::min(until, record().last_request_from);
  return until;
}

void Peer::settle() {
  if (over_) return;
  settling_ = true;
  if (!half_closed_) prepare_to_end();
  write_some(true);
}

void Peer::end() {
  if (!over_) client_.close();
  over_ = true;
}

std::string random_key(World& world) {
  const uint64_t most = world.random.chance(0.7) ? 1 + world.keys.size() / 4 : world.keys.size();
  return world.keys[world.random.below(std::min<uint64_t>(most, world.keys.size()))];
}

AskedEntry random_entry(World& world, bool may_wait) {
  io::Random& random = world.random;
  AskedEntry entry{.key = random_key(world)};
  if (random.chance(0.3)) entry.cost = 1 + static_cast<uint32_t>(random.below(world.cost_max));
  if (random.chance(0.05)) {
    entry.overrides.max_requests = 1 + static_cast<uint32_t>(random.below(world.limit_max));
  }
  if (random.chance(0.05)) {
    entry.overrides.max_requests_in_queue = static_cast<uint32_t>(random.below(world.limit_max));
  }
  if (random.chance(0.05)) {
    entry.overrides.window_ms = pick<int64_t, 5>(random, {10, 13, 50, 100, 1'000});
  }
  entry.may_wait = may_wait && random.chance(0.5);
  return entry;
}

AskedEntry random_acquire(World& world, bool may_wait) {
  AskedEntry entry = random_entry(world, may_wait);
  if (world.random.chance(0.06)) entry.cost = 0;  // a look
  return entry;
}

}  // namespace sluice::simulation
