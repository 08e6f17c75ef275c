#include "run.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "http_peer.hpp"
#include "io/sim/sim_io.hpp"
#include "native_peer.hpp"
#include "oracle.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

using io::Random;

constexpr uint64_t settle_turns_max = 50'000;
constexpr uint64_t drain_turns = 200;
constexpr int64_t a_day_ms = 24 * 3'600 * 1'000;

template <typename T, size_t count>
T pick(Random& random, const std::array<T, count>& values) {
  return values[random.below(count)];
}

shard::Options draw_shard(Random& random, bool tiny_table) {
  shard::Options options;
  options.keys_max = tiny_table ? 4 + static_cast<uint32_t>(random.below(8)) : 1'000;
  options.waiters_max = pick<uint32_t, 4>(random, {3, 20, 200, 2'000});
  options.key_bytes_max = pick<uint32_t, 2>(random, {64, 1'024});
  options.requests_can_set_rate = !random.chance(0.1);
  options.requests_can_mod_queue = !random.chance(0.1);
  options.policy = {.window_ms = pick<int64_t, 5>(random, {10, 13, 50, 100, 1'000}),
                    .max_requests = 1 + static_cast<uint32_t>(random.below(12)),
                    .max_requests_in_queue = static_cast<uint32_t>(random.below(20))};
  for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(random.next());
  return options;
}

session::Options draw_sessions(Random& random, const shard::Options& shard, bool time_outs) {
  session::Options options;
  options.key_bytes_max = shard.key_bytes_max;
  options.waiters_max = shard.waiters_max;
  options.wait_ms_max = random.chance(0.3) ? 1 + static_cast<uint32_t>(random.below(1'000)) : 0;
  options.requests_can_set_rate = shard.requests_can_set_rate;
  options.requests_can_mod_queue = shard.requests_can_mod_queue;
  if (!time_outs) {
    options.header_timeout_ms = a_day_ms;
    options.idle_timeout_ms = 0;
    options.send_timeout_ms = a_day_ms;
    options.linger_ms = a_day_ms;
  }
  return options;
}

// Greedy clients need wide pipes, or their runs would take for ever.
io::SimOptions draw_io(Random& random, bool greedy) {
  io::SimOptions options;
  options.receive_buffers = pick<uint32_t, 4>(random, {1, 2, 8, 64});
  options.receive_buffer_bytes = pick<uint32_t, 5>(random, {8, 64, 256, 4'096, 32'768});
  options.peer_window_bytes = pick<uint32_t, 4>(random, {16, 512, 8'192, 65'536});
  if (greedy) {
    options.receive_buffer_bytes = std::max(options.receive_buffer_bytes, 4'096U);
    options.peer_window_bytes = std::max(options.peer_window_bytes, 8'192U);
  }
  options.turn_ns_max = pick<int64_t, 4>(random, {0, 100'000, 2'000'000, 20'000'000});
  options.wait_ns_max = 1 + static_cast<int64_t>(random.below(5'000'000));
  options.clock_jump_ns_max =
      pick<int64_t, 3>(random, {5 * base::ns_per_ms, base::ns_per_s, 10 * base::ns_per_s});
  options.start.monotonic_ns = static_cast<int64_t>(random.below(100 * base::ns_per_s));
  return options;
}

std::vector<std::string> draw_keys(Random& random) {
  std::vector<std::string> keys;
  const uint64_t count = 1 + random.below(24);
  for (uint64_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
  keys.push_back("user x/y");
  keys.push_back(std::string(60, 'l'));
  return keys;
}

class Run {
 public:
  Run(uint64_t seed, uint64_t operations_count);
  RunResult play();

 private:
  void operate();
  void step();
  void settle();
  void turn(int64_t wait_ns);
  void connect_some();
  void receive_all();
  void check_idle();
  bool all_over() const;
  std::string owed() const;

  Random random_;
  const uint64_t operations_count_;
  const bool tiny_table_;
  const bool time_outs_;
  const double greedy_share_;
  const shard::Options shard_;
  Failure failure_;
  io::SimIo io_;
  Oracle oracle_;
  server::RequestIds ids_;
  World world_;
  std::unique_ptr<server::Worker> worker_;
  std::vector<std::unique_ptr<Peer>> peers_;
  uint32_t peers_max_;
  const bool drains_;  // in the middle of it all, not at its end
  uint64_t turns_ = 0;
};

Run::Run(uint64_t seed, uint64_t operations_count)
    : random_(seed),
      operations_count_(operations_count),
      tiny_table_(random_.chance(0.2)),
      time_outs_(random_.chance(0.2)),
      greedy_share_(pick<double, 4>(random_, {0, 0, 0.1, 0.5})),
      shard_(draw_shard(random_, tiny_table_)),
      io_(draw_io(random_, greedy_share_ > 0), random_),
      oracle_(shard_, tiny_table_, io_, failure_),
      world_{.random = random_,
             .io = io_,
             .oracle = oracle_,
             .failure = failure_,
             .keys = draw_keys(random_)},
      peers_max_(1 + static_cast<uint32_t>(random_.below(16))),
      drains_(random_.chance(0.2)) {
  world_.time_outs = time_outs_;
  world_.can_set_rate = shard_.requests_can_set_rate;
  world_.can_mod_queue = shard_.requests_can_mod_queue;
  server::WorkerOptions options{.sessions = draw_sessions(random_, shard_, time_outs_),
                                .shard = shard_};
  // Fewer connections than clients: some are turned away.
  world_.connections_full = random_.chance(0.1);
  options.connections_max = world_.connections_full ? 1 + peers_max_ / 2 : 64;
  world_.greedy_share = greedy_share_;
  worker_ = std::make_unique<server::Worker>(io_, options, ids_);
  oracle_.watch(worker_->undecided());
}

void Run::turn(int64_t wait_ns) {
  worker_->turn(wait_ns);
  world_.cut_off = worker_->statistics().cut_off > 0;
  if (++turns_ % 16 != 0) return;
  worker_->shard().check_invariants(io_.now());
  oracle_.check_waiters();
}

void Run::connect_some() {
  if (peers_.size() >= peers_max_ || !random_.chance(0.3)) return;
  if (random_.chance(0.5)) {
    peers_.push_back(std::make_unique<NativePeer>(world_));
  } else {
    peers_.push_back(std::make_unique<HttpPeer>(world_));
  }
}

void Run::receive_all() {
  for (const auto& peer : peers_) peer->receive();
  std::erase_if(peers_, [](const auto& peer) { return peer->over(); });
}

void Run::operate() {
  while (world_.operations < operations_count_ && !failure_) step();
  if (!drains_ || failure_) return;
  world_.draining = true;
  worker_->begin_drain();
  // Clients go on as if nothing had happened.
  for (uint64_t turns = 0; turns < drain_turns && !failure_; ++turns) step();
}

void Run::step() {
  connect_some();
  for (const auto& peer : peers_) {
    if (random_.chance(0.5)) peer->act();
  }
  turn(random_.chance(0.5) ? 0 : INT64_MAX);
  receive_all();
}

bool Run::all_over() const {
  return peers_.empty() && io_.sockets_open() == 0;
}

std::string Run::owed() const {
  std::string text;
  for (const auto& peer : peers_) text += "\n  " + peer->describe_state();
  return text;
}

// Faults stop, nobody asks any more: everything must come to its end by itself.
void Run::settle() {
  io_.faults().calm();
  for (uint64_t turns = 0; !all_over() && !failure_; ++turns) {
    if (turns == settle_turns_max) {
      failure_.report("does not drain: " + std::to_string(peers_.size()) + " clients, " +
                      std::to_string(io_.sockets_open()) + " sockets are left, " +
                      std::to_string(io_.sends_in_flight()) + " sends in flight" + owed());
      return;
    }
    for (const auto& peer : peers_) peer->settle();
    turn(INT64_MAX);
    receive_all();
  }
}

void Run::check_idle() {
  const auto none = [&](uint64_t count, const char* what) {
    if (count != 0) failure_.report(std::to_string(count) + " " + what + " left at the end");
  };
  none(worker_->sessions_count(), "sessions");
  none(worker_->tickets_count(), "tickets");
  none(worker_->waiting_frames_count(), "waiting frames");
  none(worker_->shard().waiters_count(), "waiters");
  none(worker_->undecided().requests().size(), "undecided requests");
  none(oracle_.model().waiters_count(), "waiters of the model");
  none(io_.sends_in_flight(), "sends");
  if (world_.draining && !worker_->drained()) failure_.report("has not drained");
  worker_->shard().check_invariants(io_.now());
}

RunResult Run::play() {
  io_.faults().draw();
  worker_->start();
  operate();
  if (!failure_) settle();
  if (!failure_) check_idle();
  RunResult result{.failure = failure_.text(),
                   .operations = world_.operations,
                   .entries = oracle_.entries_count(),
                   .turns = turns_,
                   .drained = world_.draining ? 1U : 0U,
                   .evicted = worker_->shard().statistics().keys_evicted};
  for (uint32_t i = 0; i < io::faults_count; ++i) {
    result.faults[i] = io_.faults().counted(static_cast<io::Fault>(i));
  }
  std::ranges::copy(worker_->shard().statistics().decisions, result.verdicts.begin());
  return result;
}

}  // namespace

RunResult simulate(uint64_t seed, uint64_t operations_count) {
  return Run(seed, operations_count).play();
}

}  // namespace sluice::simulation
