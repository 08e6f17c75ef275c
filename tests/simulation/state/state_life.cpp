#include "state_life.hpp"

#include <algorithm>
#include <utility>

#include "../pick.hpp"
#include "cut_quotas.hpp"
#include "proto/key_hash.hpp"

namespace sluice::simulation {
namespace {

constexpr size_t clients_max = 5;
constexpr int64_t a_day_ms = 24 * 3'600 * 1'000;
constexpr uint64_t finish_turns_max = 50'000;
constexpr uint64_t busy_turns = 500;  // more than a call takes whose client has left
constexpr uint64_t turns_between_checks = 64;
constexpr uint64_t routing_seed = 0;  // that of ShardedStores, which load the same

route::MeshOptions draw_mesh(io::Random& random, uint32_t shards) {
  return {.shards = shards,
          .messages = pick<uint32_t, 3>(random, {1, 2, 8}),
          .entries_max = 4'096,
          .routing_seed = routing_seed};
}

}  // namespace

StateLife::StateLife(StateWorld& world, SimStore& store, CopiesByEpoch& copies,
                     const LifeOptions& options)
    : world_(world),
      store_(store),
      copies_(copies),
      on_commit_(options.on_commit),
      shards_count_(options.shards),
      slowness_(pick<double, 3>(world.random, {0, 0.3, 0.8})),
      step_ns_max_(pick<int64_t, 3>(world.random, {100'000, 2'000'000, 40'000'000})),
      network_(world.random, options.start),
      worker_group_(draw_mesh(world.random, options.shards)),
      state_(world.random, store, network_, options.shards, options.machine_time, [this] {
        for (const Shard& shard : shards_) shard.io->wake();
      }) {
  if (world_.random.chance(0.5)) network_.faults().draw();
  server::WorkerOptions worker = worker_options(options);
  shards_.resize(shards_count_);
  for (uint32_t shard = 0; shard < shards_count_; ++shard) {
    shards_[shard].io = std::make_unique<io::SimIo>(io::SimOptions{.sockets_max = 256}, network_);
  }
  for (uint32_t shard = 0; shard < shards_count_; ++shard) {
    worker.sessions.shard = shard;
    shards_[shard].worker = std::make_unique<server::Worker>(
        *shards_[shard].io, worker, worker_group_, make_deciders(worker, shard));
    shards_[shard].worker->start();
  }
}

quota::Options StateLife::store_options(uint64_t id_seed) {
  return {.routing_seed = routing_seed,
          .subjects_max = 100,
          .reservations_max = 20'000,
          .waiters_max = 4,
          .name_seed = 77,
          .id_seed = id_seed,
          .keeps_state = true};
}

server::WorkerOptions StateLife::worker_options(const LifeOptions& options) {
  server::WorkerOptions worker{.quota = store_options(options.id_seed), .splits = {}};
  worker.shard.keys_max = 100;
  worker.shard.waiters_max = 4;
  worker.sessions.waiters_max = 4;
  worker.sessions.shards = shards_count_;
  worker.sessions.routing_seed = routing_seed;
  worker.sessions.header_timeout_ms = a_day_ms;
  worker.sessions.send_timeout_ms = a_day_ms;
  worker.sessions.idle_timeout_ms = 0;
  worker.connections_max = 100;
  worker.quotas = world_.books.rules();
  worker.state = state_.options();
  return worker;
}

// As WorkerThread does.
server::Deciders StateLife::make_deciders(const server::WorkerOptions& options, uint32_t shard) {
  server::Deciders deciders = server::make_deciders(options);
  const quota::Restored restored =
      server::restore(options, *deciders.quotas, shards_[shard].io->now());
  if (restored.subjects_left_out + restored.reservations_left_out > 0) {
    world_.failure.report("something was left out of a start");
  }
  deciders.quotas = std::make_unique<CutQuotas>(
      std::move(deciders.quotas),
      [this, shard](quota::QuotaDecider& store, uint64_t epoch) { copy_cut(store, shard, epoch); });
  return deciders;
}

uint64_t StateLife::reservations_count() const {
  uint64_t count = 0;
  for (const Shard& shard : shards_) count += shard.worker->quotas().reservations_count();
  return count;
}

void StateLife::copy_cut(quota::QuotaDecider& store, uint32_t shard, uint64_t epoch) {
  std::vector<std::string> subjects;
  for (const std::string& name : world_.books.subjects()) {
    const uint64_t hash = proto::routing_hash(name, routing_seed);
    if (proto::owner_shard(hash, shards_count_) == shard) subjects.push_back(name);
  }
  StateCopy& copy = copies_[epoch][shard];
  copy = copy_of(store, static_cast<api::ShardId>(shard), subjects, shards_[shard].io->now());
  copy.busy = busy_subjects();
}

std::set<std::string> StateLife::busy_subjects() const {
  std::set<std::string> names;
  for (const auto& client : clients_) client->add_busy(names);
  for (const auto& [name, turn] : busy_until_) {
    if (turns_ < turn) names.insert(name);
  }
  return names;
}

void StateLife::remove_ended() {
  std::set<std::string> names;
  for (const auto& client : clients_) {
    if (client->over()) client->add_busy(names);
  }
  for (const std::string& name : names) busy_until_[name] = turns_ + busy_turns;
  std::erase_if(clients_, [](const auto& client) { return client->over(); });
}

void StateLife::connect_some() {
  while (clients_.size() < clients_max && world_.random.chance(0.2)) {
    Shard& shard = shards_[world_.random.below(shards_count_)];
    clients_.push_back(std::make_unique<StateClient>(world_, *shard.io));
  }
}

void StateLife::step(bool asks) {
  io::Random& random = world_.random;
  network_.advance(static_cast<int64_t>(random.below(static_cast<uint64_t>(step_ns_max_))));
  const uint64_t commits = store_.commits();
  state_.step();
  if (store_.commits() != commits) on_commit_(network_.clock());
  for (const auto& client : clients_) {
    if (asks && random.chance(0.3)) client->act();
  }
  const uint64_t first = random.below(shards_count_);
  for (uint64_t i = 0; i < shards_count_; ++i) {
    if (!random.chance(slowness_)) shards_[(first + i) % shards_count_].worker->turn(0);
  }
  for (const auto& client : clients_) client->receive();
  remove_ended();
  if (++turns_ % turns_between_checks != 0) return;
  for (const Shard& shard : shards_) shard.worker->check_invariants();
}

void StateLife::play(uint64_t turns) {
  for (; turns > 0 && !world_.failure; --turns) {
    connect_some();
    step(true);
  }
}

void StateLife::finish() {
  state_.calm();
  network_.faults().calm();
  const auto awaits = [&] {
    return std::ranges::any_of(clients_, [](const auto& each) { return each->awaits_answer(); });
  };
  uint64_t turns = 0;
  while ((awaits() || !state_.finish()) && turns < finish_turns_max && !world_.failure) {
    network_.advance(base::ns_per_ms);
    step(false);
    ++turns;
  }
  if (turns == finish_turns_max) world_.failure.report("not everything becomes durable");
}

}  // namespace sluice::simulation
