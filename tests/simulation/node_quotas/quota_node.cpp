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
policy::QuotaRules rules() {
  using enum api::Metric;
  policy::QuotaRules rules{.unknown = policy::UnknownSubjects::use_quota, .lifetime_ms = 40'000};
  rules.unknown_quota.limits = {
      {.name = "slots",
       .metric = concurrency,
       .kind = api::LimitKind::concurrency,
       .amount = slots_max},
      {.name = "tokens", .metric = tokens, .amount = tokens_max, .period_ms = 3'600'000}};
  return rules;
}

}  // namespace

server::WorkerOptions QuotaNode::options() const {
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
      .quota = {.subjects_max = 100,
                .reservations_max = 200,
                .waiters_max = 100,
                .name_seed = random.next(),
                .id_seed = random.next()},
      .quotas = rules(),
      .splits = {},
      .fleet = {.own_node = static_cast<uint16_t>(number_), .timeout_ms = 600, .secret = secret},
      .connections_max = 400};
  for (uint32_t node = 0; node < nodes_; ++node) {
    const std::string host = "node" + std::to_string(node);
    options.fleet.instances.push_back(
        {.url = "http://" + host + ":8080", .host = host, .port = rest_port});
  }
  return options;
}

void QuotaNode::start() {
  server::WorkerOptions with = options();
  addresses_ = std::make_unique<peer::AddressBook>(nodes_);
  for (uint32_t node = 0; node < nodes_; ++node) {
    addresses_->set(node, address_of(node, rest_port));
  }
  with.addresses = addresses_.get();
  group_ = std::make_unique<server::WorkerGroup>(route::MeshOptions{
      .shards = with.sessions.shards, .routing_seed = with.sessions.routing_seed});
  io::SimOptions io_options;
  io_options.node = number_;
  io_options.sockets_max = server::sockets_max(with);
  shards_.resize(with.sessions.shards);
  for (uint32_t id = 0; id < shards_.size(); ++id) {
    Shard& shard = shards_[id];
    with.sessions.shard = id;
    shard.io = std::make_unique<io::SimIo>(io_options, network_);
    shard.worker =
        std::make_unique<server::Worker>(*shard.io, with, *group_, server::make_deciders(with));
    shard.io->listen(server::http_listener, address_of(number_, rest_port));
    shard.io->listen(server::native_listener, address_of(number_, native_port));
  }
  for (Shard& shard : shards_) shard.worker->start();
}

void QuotaNode::crash() {
  shards_.clear();
  group_.reset();
  for (const uint32_t link : clients_) network_.link(link).abort();
  clients_.clear();
  is_paused = false;
}

void QuotaNode::turn() {
  if (is_paused) return;
  for (Shard& shard : shards_) shard.worker->turn(0);
}

io::SimClient QuotaNode::connect() {
  Shard& shard = shards_[network_.random().below(shards_.size())];
  const io::SimClient client = shard.io->connect(server::native_listener);
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
