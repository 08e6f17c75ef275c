#include "run.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/limits.hpp"
#include "connection_watch.hpp"
#include "drawn_options.hpp"
#include "http2_peer.hpp"
#include "http_peer.hpp"
#include "io/sim/sim_io.hpp"
#include "io/sim/sim_network.hpp"
#include "native_peer.hpp"
#include "oracle.hpp"
#include "pauses.hpp"
#include "pick.hpp"
#include "quota_books.hpp"
#include "quota_http_peer.hpp"
#include "quota_peer.hpp"
#include "quota_watch.hpp"
#include "server/worker.hpp"
#include "sim_state.hpp"
#include "watched_io.hpp"

namespace sluice::simulation {
namespace {

using io::Random;

// Frames may arrive eight bytes at a time, or their entries may go to another shard one by one.
constexpr uint64_t settle_turns_max = 400'000;
constexpr uint64_t drop_turns = 128;  // more than dropping all handles of a shard takes
constexpr int64_t settle_ns_min = 60 * base::ns_per_s;  // a queue of twenty, a second for each
constexpr uint64_t drain_turns = 200;
constexpr uint64_t silent_turns = 30;
constexpr int64_t silent_ns = 10 * base::ns_per_ms;  // each; all together more than the grace
constexpr uint64_t vanish_turns_max = 5'000;
constexpr uint64_t quota_hurry_turns = 64;  // between two pushes of the clock, while calls wait
constexpr int64_t quota_hurry_ns = 10 * base::ns_per_ms;
constexpr uint64_t timeout_hurry_turns = 8;  // likewise, while a client waits for a time-out
constexpr int64_t timeout_hurry_ns = base::ns_per_s;
constexpr int64_t lifetimes_ns = 3 * base::ns_per_s;  // longer than any reservation lives
constexpr int64_t sweep_ns = 250 * base::ns_per_ms;   // between two turns of a worker that is idle
constexpr uint64_t sweeps_max = 400;
constexpr double kept_share = 0.4;  // of the runs with quotas: their state is kept
constexpr uint64_t finish_turns_max = 20'000;
constexpr double bystanders_share = 0.2;  // of the clients, if shards stand still
constexpr size_t bystanders_key_bytes_max = 16;
constexpr uint64_t beside_asking_steps = 20;
// Entries may go to another shard one by one: then that takes thousands of steps.
constexpr uint64_t beside_steps_max = 40'000;
constexpr uint64_t beside_quiet_steps_max = 20;  // in a row, no worker has anything to do

// One shard: its kernel, its worker, and whether that sleeps.
struct SimulatedShard {
  std::unique_ptr<io::SimIo> io;
  std::unique_ptr<WatchedIo> watched_io;
  std::unique_ptr<server::Worker> worker;
  bool asleep = false;
  int64_t wakes_ns = 0;  // when its worker wakes by itself
};

class Run final : private io::PauseWatch {
 public:
  Run(uint64_t seed, uint64_t operations_count, uint32_t shards_count);
  RunResult play();

 private:
  void find_bystanders_keys();
  void keep_state(server::WorkerOptions& options, uint32_t shards_count);
  server::Deciders watched_deciders(const server::WorkerOptions& options);
  void operate();
  void step();
  void connect_http2();
  void fall_silent();
  void vanish();
  void settle();
  void end_quotas();
  void end_keys();
  void end_state();
  void turn_until_over();
  void turn_all(int64_t wait_ns, bool all);
  bool is_held(uint32_t shard);
  bool sleeps_on(SimulatedShard& shard);
  void check_sleep(const SimulatedShard& shard);
  void on_pause() override;
  void turn(SimulatedShard& shard, int64_t wait_ns);
  void turn_alone(SimulatedShard& shard, int64_t wait_ns);
  void advance_if_all_sleep();
  void finish_beside();
  void ask_beside();
  bool is_quiet_beside();
  void connect_some();
  std::unique_ptr<Peer> new_peer();
  void adopt_some();
  void receive_all();
  void check_idle();
  bool all_over() const;
  uint32_t sockets_open() const;
  std::string describe_unfinished() const;

  Random random_;
  Random state_random_;  // so that runs without a state draw the same as ever
  const uint64_t operations_count_;
  const bool tiny_table_;
  const bool time_outs_;
  const double greedy_share_;
  const shard::Options shard_;
  Failure failure_;
  const io::SimOptions io_options_;
  io::SimNetwork network_;
  Oracle oracle_;
  // Null: a run without quotas.
  std::unique_ptr<QuotaBooks> books_;
  std::unique_ptr<QuotaWatch> quotas_;
  // Null: nothing is kept.
  std::unique_ptr<SimStore> store_;
  std::unique_ptr<SimState> state_;
  std::unique_ptr<server::WorkerGroup> worker_group_;
  std::unique_ptr<ConnectionWatch> connections_;
  World world_;
  std::vector<SimulatedShard> shards_;
  std::vector<const SimulatedShard*> turning_;  // within each other
  std::vector<std::unique_ptr<Peer>> peers_;
  uint32_t peers_max_;
  const bool changes_rules_;
  const bool drains_;  // before the clients have ended
  bool draining_ = false;
  double slowness_ = 0;
  Pauses pauses_;
  uint64_t turns_ = 0;
};

Run::Run(uint64_t seed, uint64_t operations_count, uint32_t shards_count)
    : random_(seed),
      state_random_(seed ^ 0x57A7'E000'0000'0000),
      operations_count_(operations_count),
      tiny_table_(random_.chance(0.2)),
      time_outs_(random_.chance(0.4)),
      greedy_share_(pick<double, 4>(random_, {0, 0, 0.1, 0.5})),
      shard_(draw_shard(random_, tiny_table_)),
      io_options_(draw_io(random_, greedy_share_ > 0)),
      network_(random_, io_options_.start),
      oracle_(shard_, tiny_table_, failure_),
      world_{.random = random_,
             .ios = {},
             .oracle = oracle_,
             .failure = failure_,
             .keys = draw_keys(random_)},
      peers_max_(1 + static_cast<uint32_t>(random_.below(16))),
      changes_rules_(random_.chance(0.5)),
      drains_(random_.chance(0.3)),
      pauses_(seed, shards_count) {
  world_.time_outs = time_outs_;
  world_.can_set_rate = shard_.requests_can_set_rate;
  world_.can_mod_queue = shard_.requests_can_mod_queue;
  world_.can_set_window = shard_.requests_can_set_window;
  server::WorkerOptions options{.sessions = draw_sessions(random_, shard_, time_outs_),
                                .shard = shard_,
                                .quota = draw_quotas(random_),
                                .splits = {}};
  if (random_.chance(0.5)) {
    books_ = std::make_unique<QuotaBooks>(random_, failure_);
    quotas_ = std::make_unique<QuotaWatch>(random_, *books_, options.quota, failure_);
    options.quotas = books_->first_rules();
  }
  world_.network = &network_;
  world_.large_messages =
      io_options_.receive_buffer_bytes >= 4'096 && io_options_.peer_window_bytes >= 8'192;
  world_.books = books_.get();
  // Fewer connections than clients: the server refuses some.
  const bool connections_full = random_.chance(0.1);
  options.connections_max = connections_full ? 1 + peers_max_ / 2 : 256;
  // Tasks that wait, in each shard, for the one that is under way.
  if (shards_count > 1 && random_.chance(0.3)) {
    options.tasks_max = pick<uint32_t, 4>(random_, {1, 1, 2, 3});
    world_.few_tasks = true;
    if (quotas_ && options.tasks_max == 1) quotas_->set_single_task();
  }
  if (time_outs_) options.drain_ms = pick<int64_t, 4>(random_, {0, 100, 500, 5'000});
  world_.greedy_share = greedy_share_;
  world_.header_timeout_ms = options.sessions.header_timeout_ms;
  worker_group_ = std::make_unique<server::WorkerGroup>(
      shards_count == 1 ? route::MeshOptions{} : draw_mesh(random_, shards_count));
  connections_ = std::make_unique<ConnectionWatch>(options, *worker_group_, failure_);
  world_.connections = connections_.get();
  if (shards_count > 1) {
    slowness_ = pick<double, 3>(random_, {0, 0.3, 0.8});
    options.splits.answer_bytes_max = pick<uint32_t, 2>(random_, {1, 4 * 1024 * 1024});
    if (random_.chance(0.5)) {
      options.return_poll_ns = server::return_poll_ns;
      network_.watch_pauses(*this);
    }
  }
  if (quotas_ && state_random_.chance(kept_share)) keep_state(options, shards_count);
  world_.may_stand_still = [this](uint32_t shard) { return pauses_.may_stand_still(shard); };
  // A few frames: what waits for a shard that stands still can fill it.
  if (pauses_.has_still_shards()) options.splits.answer_bytes_max = 4'096;
  options.sessions.shards = shards_count;
  options.sessions.routing_seed = worker_group_->mesh().routing_seed();
  shards_.resize(shards_count);
  for (uint32_t shard = 0; shard < shards_count; ++shard) {
    options.sessions.shard = shard;
    shards_[shard].io = std::make_unique<io::SimIo>(io_options_, network_);
    if (quotas_) shards_[shard].io->watch_taken(quotas_->taken_watch());
    shards_[shard].watched_io =
        std::make_unique<WatchedIo>(*shards_[shard].io, *connections_, shard);
    shards_[shard].worker = std::make_unique<server::Worker>(
        *shards_[shard].watched_io, options, *worker_group_, watched_deciders(options));
    world_.ios.push_back(shards_[shard].io.get());
    oracle_.watch(*shards_[shard].worker, *shards_[shard].io);
    connections_->watch(*shards_[shard].worker);
  }
  find_bystanders_keys();
}

void Run::find_bystanders_keys() {
  const route::Mailboxes& mailboxes = shards_[0].worker->mailboxes();
  for (const std::string& key : world_.keys) {
    // A frame of long ones alone might be longer than a frame may be.
    const bool is_short = key.size() <= bystanders_key_bytes_max;
    const bool is_spared = !pauses_.may_stand_still(mailboxes.shard_of(key));
    if (is_short && is_spared) world_.bystanders_keys.push_back(key);
  }
}

// A first start: nothing is loaded.
void Run::keep_state(server::WorkerOptions& options, uint32_t shards_count) {
  store_ = std::make_unique<SimStore>(state_random_);
  const auto machine_time = [](base::Now now) {
    return state::MachineTime{
        .boot = {.high = 1}, .boot_ns = now.monotonic_ns, .wall_ns = now.wall_ns};
  };
  state_ = std::make_unique<SimState>(state_random_, *store_, network_, shards_count, machine_time,
                                      [this] {
                                        for (SimulatedShard& shard : shards_) shard.io->wake();
                                      });
  options.state = state_->options();
  world_.keeps_state = true;
}

// The real deciders, wrapped by those that check the worker's calls.
server::Deciders Run::watched_deciders(const server::WorkerOptions& options) {
  server::Deciders deciders = server::make_deciders(options);
  deciders.keys = oracle_.check(std::move(deciders.keys));
  if (quotas_) deciders.quotas = quotas_->watch(std::move(deciders.quotas));
  return deciders;
}

// Whether a worker that sleeps goes on sleeping: until an event, or its own deadline.
bool Run::sleeps_on(SimulatedShard& shard) {
  if (!shard.asleep || shard.io->has_event_pending() || shard.io->is_sending()) return false;
  if (shard.worker->has_messages()) {
    failure_.report("a worker sleeps although a message was sent to it: a wake was missed");
  }
  return network_.clock().monotonic_ns < shard.wakes_ns;
}

// A worker that sleeps must wake when the first thing is due.
void Run::check_sleep(const SimulatedShard& shard) {
  const api::ShardId id = shard.worker->mailboxes().shard();
  const auto check = [&](int64_t due_ns, const std::string& what) {
    if (shard.wakes_ns <= due_ns) return;
    failure_.report("shard " + std::to_string(id) + " sleeps until " +
                    std::to_string(shard.wakes_ns) + " ns, and " + what + " is due at " +
                    std::to_string(due_ns) + " ns");
  };
  check(base::due_ns(connections_->next_due_ms(id)), "the end of a connection");
  check(base::due_ns(oracle_.next_due_ms(id)), "a waiter");
  if (!quotas_) return;
  check(base::due_ns(quotas_->next_due_ms(id)), "a lifetime or the wait limit of a quota's waiter");
  // No model knows when a waiter fits into a quota: the store does, and must have said so when it
  // serves one (QuotaWatch).
  check(shard.worker->quotas().next_due_ns(), "something of its quotas");
}

// While one worker polls for a message, another may make a turn, which ends with all its steps.
void Run::on_pause() {
  if (turning_.size() != 1 || failure_ || !random_.chance(0.05)) return;
  SimulatedShard& other = shards_[random_.below(shards_.size())];
  if (&other == turning_.front() || sleeps_on(other)) return;
  world_.count(ShardEvent::turned_meanwhile);
  turn(other, 0);
}

void Run::turn(SimulatedShard& shard, int64_t wait_ns) {
  turning_.push_back(&shard);
  turn_alone(shard, wait_ns);
  turning_.pop_back();
}

void Run::turn_alone(SimulatedShard& shard, int64_t wait_ns) {
  shard.worker->turn(wait_ns);
  connections_->after_turn(shard.worker->mailboxes().shard(), shard.watched_io->now_ms());
  if (++turns_ % 16 == 0) {
    shard.worker->check_invariants();
    oracle_.check_waiters();
  }
  const int64_t now_ns = network_.clock().monotonic_ns;  // before it polls for messages
  const int64_t sleep_ns = shard.worker->prepare_poll();
  shard.asleep = sleep_ns > 0;
  shard.wakes_ns = now_ns + sleep_ns;
  if (shard.asleep && !failure_) check_sleep(shard);
}

// Whether a worker that has something to do takes no turn now.
bool Run::is_held(uint32_t shard) {
  switch (pauses_.holds(shard, shards_[shard].asleep)) {
    case Pauses::Reason::stands_still:
      world_.count(ShardEvent::stood_still);
      return true;
    case Pauses::Reason::woken_late:
      world_.count(ShardEvent::woken_late);
      return true;
    case Pauses::Reason::none:
      break;
  }
  const bool is_slow = random_.chance(slowness_);
  if (is_slow) world_.count(ShardEvent::slow_shard);
  return is_slow;
}

// Runs the workers from any one on, some of them not at all.
void Run::turn_all(int64_t wait_ns, bool all) {
  if (state_) state_->step();
  if (shards_.size() == 1) return turn(shards_[0], wait_ns);
  const uint64_t first = random_.below(shards_.size());
  for (uint64_t i = 0; i < shards_.size() && !failure_; ++i) {
    const auto id = static_cast<uint32_t>((first + i) % shards_.size());
    if (sleeps_on(shards_[id])) {
      world_.count(ShardEvent::slept);
    } else if (all || !is_held(id)) {
      turn(shards_[id], 0);
    }
  }
  if (wait_ns > 0) advance_if_all_sleep();
}

// When all workers sleep, but for those that stand still, advances the clock towards the first
// wake-up, a piece at a time.
void Run::advance_if_all_sleep() {
  int64_t next_ns = INT64_MAX;
  for (uint32_t id = 0; id < shards_.size(); ++id) {
    if (pauses_.stands_still(id)) continue;
    if (!sleeps_on(shards_[id])) return;
    next_ns = std::min(next_ns, shards_[id].wakes_ns);
  }
  if (state_) next_ns = std::min(next_ns, state_->due_ns());
  const int64_t until_ns = std::max<int64_t>(next_ns - network_.clock().monotonic_ns, 0);
  network_.advance(std::min(until_ns, io_options_.wait_ns_max));
}

void Run::connect_some() {
  const bool all = random_.chance(0.01);
  while (peers_.size() < peers_max_ && (all || random_.chance(0.2))) peers_.push_back(new_peer());
}

std::unique_ptr<Peer> Run::new_peer() {
  const bool native = random_.chance(0.5);
  const bool has_bystanders = pauses_.has_still_shards() && !world_.bystanders_keys.empty();
  if (has_bystanders && random_.chance(bystanders_share)) {
    if (native) return std::make_unique<NativePeer>(world_, true);
    return std::make_unique<HttpPeer>(world_, true);
  }
  if (books_ && random_.chance(0.6)) {
    if (native) return std::make_unique<QuotaPeer>(world_);
    return std::make_unique<QuotaHttpPeer>(world_);
  }
  if (native) return std::make_unique<NativePeer>(world_);
  if (random_.chance(0.5)) return std::make_unique<Http2Peer>(world_);
  return std::make_unique<HttpPeer>(world_);
}

// Like the rule watch: between two turns of a worker, which it wakes; never for all workers at
// once.
void Run::adopt_some() {
  if (!changes_rules_ || !random_.chance(0.05)) return;
  SimulatedShard& shard = shards_[random_.below(shards_.size())];
  shard.worker->adopt(std::make_unique<policy::RuleBook>(
      shard_.policy, draw_rules(random_), books_ ? books_->changed_rules() : policy::QuotaRules{}));
  shard.asleep = false;
}

void Run::receive_all() {
  for (const auto& peer : peers_) peer->receive();
  std::erase_if(peers_, [](const auto& peer) { return peer->over(); });
}

void Run::operate() {
  while (world_.operations < operations_count_ && !failure_) step();
  if (!drains_ || failure_) return;
  connect_http2();
  draining_ = true;
  // Clients go on as before; the workers begin to drain one after the other.
  const uint64_t turns_between = random_.below(drain_turns / shards_.size());
  for (SimulatedShard& shard : shards_) {
    connections_->begin_drain(shard.worker->mailboxes().shard(), shard.watched_io->now_ms());
    shard.worker->begin_drain();
    shard.asleep = false;
    for (uint64_t turns = 0; turns < turns_between && !failure_; ++turns) step();
  }
  if (random_.chance(0.5)) fall_silent();
  for (uint64_t turns = 0; turns < drain_turns && !failure_; ++turns) step();
}

// So that a drain finds some of them: most leave soon, with many requests for each.
void Run::connect_http2() {
  for (uint64_t left = random_.below(5); left > 0; --left) {
    peers_.push_back(std::make_unique<Http2Peer>(world_));
  }
  for (uint64_t turns = random_.below(drain_turns / 5); turns > 0 && !failure_; --turns) step();
}

// The clients ask nothing for a while: a drain ends those that wait for nothing.
void Run::fall_silent() {
  for (uint64_t turns = 0; turns < silent_turns && !failure_; ++turns) {
    network_.advance(silent_ns);
    turn_all(0, true);
    receive_all();
  }
}

void Run::step() {
  pauses_.begin_step();
  connect_some();
  adopt_some();
  for (const auto& peer : peers_) {
    if (random_.chance(0.5)) peer->act();
  }
  turn_all(random_.chance(0.5) ? 0 : INT64_MAX, false);
  receive_all();
  if (pauses_.is_last_still_step() && !draining_ && !failure_) finish_beside();
}

// While shards stand still, the clients that need none of them ask on for a while, all others do
// not. When the other shards have done all they can, those clients must have their answers.
void Run::finish_beside() {
  ask_beside();
  const auto waits = [](const auto& peer) { return peer->awaits_bystanders_answer(); };
  bool has_waited = false;
  uint64_t quiet_steps = 0;
  for (uint64_t steps = 0; steps < beside_steps_max && quiet_steps < beside_quiet_steps_max;
       ++steps) {
    if (std::ranges::none_of(peers_, waits)) {
      if (has_waited) world_.count(ShardEvent::answered_beside);
      return;
    }
    if (failure_) return;
    has_waited = true;
    quiet_steps = is_quiet_beside() ? quiet_steps + 1 : 0;
    turn_all(INT64_MAX, false);
    receive_all();
  }
  // A large frame that arrives in tiny pieces, at a worker that is woken late, takes longer.
  const bool is_judged = quiet_steps == beside_quiet_steps_max;
  if (failure_ || !is_judged || std::ranges::none_of(peers_, waits)) return;
  const auto held = std::ranges::find_if(peers_, waits);
  failure_.report("waits for shards that stand still, and has asked none of them: " +
                  (*held)->describe_state() + describe_unfinished());
}

void Run::ask_beside() {
  for (uint64_t steps = 0; steps < beside_asking_steps && !failure_; ++steps) {
    for (const auto& peer : peers_) {
      if (peer->is_bystander()) peer->act();
    }
    turn_all(INT64_MAX, false);
    receive_all();
  }
  for (const auto& peer : peers_) {
    if (peer->is_bystander()) peer->attend();
  }
}

// The workers that do not stand still have nothing to do.
bool Run::is_quiet_beside() {
  for (uint32_t id = 0; id < shards_.size(); ++id) {
    if (!pauses_.stands_still(id) && !sleeps_on(shards_[id])) return false;
  }
  return true;
}

uint32_t Run::sockets_open() const {
  uint32_t count = network_.released_count();
  for (const SimulatedShard& shard : shards_) count += shard.io->sockets_open();
  return count;
}

bool Run::all_over() const {
  if (!peers_.empty() || sockets_open() > 0) return false;
  // A client may have left before it was accepted.
  return std::ranges::all_of(shards_, [](const SimulatedShard& shard) {
    return shard.worker->idle() && shard.io->backlog_count() == 0;
  });
}

std::string Run::describe_unfinished() const {
  std::string text;
  for (const auto& peer : peers_) text += "\n  " + peer->describe_state();
  for (const SimulatedShard& shard : shards_) {
    text += "\n  shard " + std::to_string(shard.worker->mailboxes().shard()) +
            (shard.asleep ? " sleeps" : " is awake") +
            (shard.io->has_event_pending() ? ", has an event" : "") +
            (shard.worker->idle() ? ", is idle, " : ", ") +
            std::to_string(shard.worker->router().book().open_count()) + " split requests, " +
            std::to_string(shard.worker->tickets_count()) + " tickets, " +
            std::to_string(shard.worker->keys().waiters_count()) + " waiters";
  }
  return text;
}

// Stops the faults and the requests: then everything must end by itself.
void Run::settle() {
  network_.faults().calm();
  if (state_) state_->calm();
  turn_until_over();
  if (quotas_ && !failure_) end_quotas();
  // The workers drop the handles of ended connections in slices.
  for (uint64_t turns = 0; turns < drop_turns && !failure_; ++turns) turn_all(0, true);
  if (!failure_) end_keys();
  if (state_ && !failure_) end_state();
}

// As at a clean stop: everything becomes durable, and the workers have nothing more to keep.
void Run::end_state() {
  for (uint64_t turns = 0; !state_->finish() && turns < finish_turns_max && !failure_; ++turns) {
    network_.advance(base::ns_per_ms);
    turn_all(0, true);
  }
  if (!state_->finish()) failure_.report("the state does not become durable at the end");
  for (const SimulatedShard& shard : shards_) {
    if (shard.worker->quotas().has_changes()) failure_.report("changes are not kept at the end");
  }
}

// The keys are those of the model; and when their windows are over the sweep forgets every one.
void Run::end_keys() {
  const auto now = [](const SimulatedShard& shard) { return shard.io->now(); };
  for (const SimulatedShard& shard : shards_) {
    oracle_.check_keys(shard.worker->mailboxes().shard(), now(shard));
  }
  const auto has_keys = [](const SimulatedShard& shard) {
    return shard.worker->keys().keys_count() > 0;
  };
  for (uint64_t sweeps = 0; sweeps < sweeps_max && !failure_; ++sweeps) {
    if (std::ranges::none_of(shards_, has_keys)) return;
    network_.advance(sweep_ns);
    turn_all(0, true);
  }
}

// Ends all clients at once, at whatever point they are: undelivered reservations must end long
// before their lifetimes are over. The clock stands still if possible.
void Run::vanish() {
  network_.faults().calm();
  for (const auto& peer : peers_) peer->vanish();
  receive_all();
  for (uint64_t turns = 0; !all_over() && turns < vanish_turns_max && !failure_; ++turns) {
    turn_all(0, true);
  }
  if (all_over() && !failure_) quotas_->on_all_left();
}

// Lets every lifetime end; then no reservation may be open, and a client checks that.
void Run::end_quotas() {
  quotas_->check_bindings();
  quotas_->check_undelivered();
  network_.advance(lifetimes_ns);
  for (uint64_t turns = 0; turns < drop_turns && !failure_; ++turns) turn_all(0, true);
  if (!failure_) quotas_->check_empty();
  for (const SimulatedShard& shard : shards_) {
    if (!failure_) quotas_->audit(shard.worker->mailboxes().shard(), shard.io->now());
  }
  // A client sees the same; a server that drains has none.
  if (draining_ || failure_) return;
  peers_.push_back(std::make_unique<QuotaPeer>(world_, true));
  turn_until_over();
}

void Run::turn_until_over() {
  const int64_t until_ns = network_.clock().monotonic_ns + settle_ns_min;
  for (uint64_t turns = 0; !all_over() && !failure_; ++turns) {
    if (turns >= settle_turns_max && network_.clock().monotonic_ns >= until_ns) {
      failure_.report("does not drain: " + std::to_string(peers_.size()) + " clients, " +
                      std::to_string(sockets_open()) + " sockets are left" + describe_unfinished());
      return;
    }
    for (const auto& peer : peers_) peer->settle();
    // Waiters of quotas may have to wait for many lifetimes, one after the other.
    if (quotas_ && turns % quota_hurry_turns == 0) network_.advance(quota_hurry_ns);
    const bool awaits_timeout =
        std::ranges::any_of(peers_, [](const auto& peer) { return peer->awaits_timeout(); });
    if (awaits_timeout && turns % timeout_hurry_turns == 0) network_.advance(timeout_hurry_ns);
    turn_all(INT64_MAX, true);
    receive_all();
  }
}

void Run::check_idle() {
  const auto none = [&](uint64_t count, const char* what) {
    if (count != 0) failure_.report(std::to_string(count) + " " + what + " left at the end");
  };
  for (const SimulatedShard& shard : shards_) {
    none(shard.worker->sessions_count(), "sessions");
    none(shard.worker->tickets_count(), "tickets");
    none(shard.worker->waiting_frames_count(), "waiting frames");
    none(shard.worker->keys().waiters_count(), "waiters");
    none(shard.worker->keys().keys_count(), "keys");
    none(shard.worker->keys().handles_count(), "handles");
    none(shard.worker->quotas().waiters_count(), "waiters for quotas");
    none(shard.worker->tasks_count(), "tasks");
    none(shard.worker->debug_walks_count(), "walks through all keys");
    none(shard.io->sockets_open(), "sockets");
    none(shard.worker->undecided().requests().size(), "undecided requests");
    none(shard.worker->router().book().open_count(), "split requests");
    none(shard.worker->router().book().waiting_bytes(), "bytes for answers of other shards");
    none(shard.io->sends_in_flight(), "sends");
    for (const auto what : {session::WaitsFor::permits, session::WaitsFor::quota}) {
      none(worker_group_->waiting_on_others(shard.worker->mailboxes().shard(), what),
           "waiters that other shards report");
    }
    if (draining_ && !shard.worker->drained()) failure_.report("has not drained");
    shard.worker->check_invariants();
  }
  none(network_.released_count(), "connections between two shards");
  connections_->check_none_left();
  none(oracle_.waiters_count(), "waiters of the model");
}

RunResult Run::play() {
  network_.faults().draw();
  for (SimulatedShard& shard : shards_) shard.worker->start();
  operate();
  if (!failure_ && quotas_ && random_.chance(0.5)) vanish();
  if (!failure_) settle();
  if (!failure_) check_idle();
  RunResult result{.failure = failure_.text(),
                   .operations = world_.operations,
                   .entries = oracle_.entries_count(),
                   .by_handle = oracle_.by_handle_count(),
                   .handles_full = oracle_.handles_full_count(),
                   .turns = turns_,
                   .drained = draining_ ? 1U : 0U};
  for (uint32_t i = 0; i < io::faults_count; ++i) {
    result.faults[i] = network_.faults().counted(static_cast<io::Fault>(i));
  }
  const auto add = [&](ShardEvent event, uint64_t count) {
    world_.shard_events[static_cast<uint32_t>(event)] += count;
  };
  for (const SimulatedShard& shard : shards_) {
    const shard::Statistics& statistics = shard.worker->keys().statistics();
    result.evicted += statistics.keys_evicted;
    result.adopted += shard.worker->statistics().rules_adopted;
    for (size_t i = 0; i < statistics.decisions.size(); ++i) {
      result.verdicts[i] += statistics.decisions[i];
    }
    add(ShardEvent::other_shard_entry, shard.worker->router().other_shard_entries());
    add(ShardEvent::full_mailbox, shard.worker->mailboxes().full_count());
    add(ShardEvent::no_message, shard.worker->router().refusals().no_message);
    add(ShardEvent::no_answer_room, shard.worker->router().refusals().no_answer_room);
    add(ShardEvent::held_session, shard.worker->statistics().blocked);
    add(ShardEvent::moved, shard.worker->statistics().moved);
  }
  add(ShardEvent::left_behind, oracle_.left_behind());
  add(ShardEvent::refunded, oracle_.refunded());
  add(ShardEvent::refunded_late, oracle_.refunded_late());
  result.shard_events = world_.shard_events;
  result.connection_events = connections_->events();
  result.http2_events = world_.http2_events;
  if (store_) {
    result.state_events = world_.state_events;
    result.state_events[static_cast<uint32_t>(StateEvent::kept)] = 1;
    result.state_events[static_cast<uint32_t>(StateEvent::committed)] = store_->commits();
    result.state_events[static_cast<uint32_t>(StateEvent::failed)] = store_->failures();
  }
  if (quotas_) {
    result.quota_events = quotas_->events();
    result.usages_checked = books_->usages_checked();
  }
  return result;
}

}  // namespace

RunResult simulate(uint64_t seed, uint64_t operations_count, uint32_t shards_count) {
  return Run(seed, operations_count, shards_count).play();
}

}  // namespace sluice::simulation
