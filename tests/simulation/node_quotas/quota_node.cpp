#include "quota_node.hpp"

#include <algorithm>
#include <string>

#include "quota_oracle.hpp"
#include "server/deciders.hpp"

namespace sluice::simulation {
namespace {

constexpr uint16_t rest_port = 8'080;
constexpr uint16_t native_port = 8'081;
constexpr const char* secret = "the secret of all nodes";

io::PeerAddress address_of(uint32_t node, uint16_t port) {
  io::PeerAddress address{.port = port};
  address.bytes[15] = static_cast<uint8_t>(node + 1);
  return address;
}

// Of every subject.
policy::QuotaRules rules(uint64_t tokens_max) {
  using enum api::Metric;
  policy::QuotaRules rules{.unknown = policy::UnknownSubjects::use_quota,
                           .lifetime_ms = default_lifetime_ms};
  rules.unknown_quota.limits = {
      {.name = "slots",
       .metric = concurrency,
       .kind = api::LimitKind::concurrency,
       .amount = slots_max},
      {.name = "tokens", .metric = tokens, .amount = tokens_max, .period_ms = 3'600'000}};
  return rules;
}

}  // namespace

QuotaNode::QuotaNode(const Options& options, io::SimNetwork& network)
    : options_(options),
      network_(network),
      kept_shards_(1 + static_cast<uint32_t>(network.random().below(3))),
      kept_seed_(network.random().next()) {
  if (options.keeps_state) store_ = std::make_unique<SimStore>(network.random());
}

server::WorkerOptions QuotaNode::worker_options() {
  io::Random& random = network_.random();
  server::WorkerOptions options{
      .sessions = {.waiters_max = 100,
                   .shards = 1 + static_cast<uint32_t>(random.below(3)),
                   .routing_seed = random.next(),
                   .instance_id = random.next(),
                   .rest_port = rest_port,
                   .native_port = native_port,
                   .peer_secret = secret},
      .shard = {.keys_max = 100, .waiters_max = 100},
      .quota = {.subjects_max = 1'000,
                .reservations_max = 20'000,  // none is forgotten for its place
                .waiters_max = 100,
                .name_seed = random.next(),
                .id_seed = random.next()},
      .quotas = rules(options_.tokens_max),
      .splits = {},
      .fleet = {.own_node = static_cast<uint16_t>(options_.number),
                .timeout_ms = 600,
                .secret = secret},
      .connections_max = 400};
  for (uint32_t node = 0; node < options_.nodes; ++node) {
    const std::string host = "node" + std::to_string(node);
    options.fleet.instances.push_back(
        {.url = "http://" + host + ":8080", .host = host, .port = rest_port});
  }
  if (store_) keep_state(options);
  return options;
}

// A number of shards of its own would have a repeat under an id be charged twice (ADR 0023).
void QuotaNode::keep_state(server::WorkerOptions& with) {
  with.sessions.shards = kept_shards_;
  with.sessions.routing_seed = with.quota.name_seed = kept_seed_;
  const auto machine_time = [](base::Now now) {
    return state::MachineTime{
        .boot = {.high = 1}, .boot_ns = now.monotonic_ns, .wall_ns = now.wall_ns};
  };
  state_ = std::make_unique<SimState>(network_.random(), *store_, network_, kept_shards_,
                                      machine_time, [this] {
                                        for (const Shard& shard : shards_) shard.io->wake();
                                      });
  with.state = state_->options();
  noted_epoch_ = state_->schedule().epoch();
  noted_ns_ = network_.clock().monotonic_ns;
}

// As WorkerThread does.
server::Deciders QuotaNode::make_deciders(const server::WorkerOptions& with, const io::SimIo& io) {
  server::Deciders deciders = server::make_deciders(with);
  const quota::Restored restored = server::restore(with, *deciders.quotas, io.now());
  has_left_out_ |= restored.subjects_left_out + restored.reservations_left_out > 0;
  has_left_out_ |= !restored.moved_quotas.empty();
  restored_ += deciders.quotas->reservations_count();
  return deciders;
}

void QuotaNode::start() {
  server::WorkerOptions with = worker_options();
  addresses_ = std::make_unique<peer::AddressBook>(options_.nodes);
  for (uint32_t node = 0; node < options_.nodes; ++node) {
    addresses_->set(node, address_of(node, rest_port));
  }
  with.addresses = addresses_.get();
  group_ = std::make_unique<server::WorkerGroup>(route::MeshOptions{
      .shards = with.sessions.shards, .routing_seed = with.sessions.routing_seed});
  io::SimOptions io_options;
  io_options.node = options_.number;
  io_options.sockets_max = server::sockets_max(with);
  shards_.resize(with.sessions.shards);
  for (uint32_t id = 0; id < shards_.size(); ++id) {
    Shard& shard = shards_[id];
    with.sessions.shard = id;
    shard.io = std::make_unique<io::SimIo>(io_options, network_);
    shard.worker =
        std::make_unique<server::Worker>(*shard.io, with, *group_, make_deciders(with, *shard.io));
    shard.io->listen(server::http_listener, address_of(options_.number, rest_port));
    shard.io->listen(server::native_listener, address_of(options_.number, native_port));
  }
  for (Shard& shard : shards_) shard.worker->start();
}

int64_t QuotaNode::crash() {
  if (state_) state_->crash();
  for (Shard& shard : shards_) shard.worker->close_sessions();
  shards_.clear();
  group_.reset();
  state_.reset();
  for (const uint32_t link : clients_) network_.link(link).abort();
  clients_.clear();
  is_paused = false;
  if (!store_) return QuotaOracle::never_kept;
  store_->open_again();
  return store_->is_empty() ? QuotaOracle::never_kept : epochs_.at(store_->last_epoch());
}

void QuotaNode::turn() {
  if (is_paused) return;
  for (Shard& shard : shards_) shard.worker->turn(0);
  if (!state_) return;
  state_->step();
  note_epoch();
}

// A cut has everything that was answered before its epoch began.
void QuotaNode::note_epoch() {
  const uint64_t epoch = state_->schedule().epoch();
  for (; noted_epoch_ < epoch; ++noted_epoch_) epochs_[noted_epoch_ + 1] = noted_ns_;
  noted_ns_ = network_.clock().monotonic_ns;
}

void QuotaNode::calm() const {
  if (state_) state_->calm();
}

io::SimClient QuotaNode::connect(io::ListenerId listener) {
  Shard& shard = shards_[network_.random().below(shards_.size())];
  const io::SimClient client = shard.io->connect(listener);
  clients_.push_back(client.link_id());
  return client;
}

uint32_t QuotaNode::open_reservations() const {
  uint32_t count = 0;
  for (const Shard& shard : shards_) count += shard.worker->quotas().reservations_count();
  return count;
}

bool QuotaNode::is_idle() const {
  return std::ranges::all_of(shards_, [](const Shard& shard) {
    return shard.worker->idle() && shard.worker->quotas().waiters_count() == 0 &&
           !shard.worker->has_visited_waiters();
  });
}

}  // namespace sluice::simulation
