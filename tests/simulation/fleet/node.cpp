#include "node.hpp"

#include <algorithm>

#include "server/deciders.hpp"
#include "watched_keys.hpp"

namespace sluice::simulation {
namespace {

constexpr double held_share = 0.2;  // of the turns that a worker could take

}  // namespace

Node::Node(uint16_t number, const DrawnFleet& fleet, FleetOracle& oracle, io::SimNetwork& network,
           Failure& failure)
    : number_(number),
      fleet_(fleet),
      oracle_(oracle),
      network_(network),
      failure_(failure),
      random_(network.random()) {}

Node::~Node() {
  if (has_started()) crash();
}

void Node::start() {
  ++starts_;
  server::WorkerOptions options = draw_node(random_, fleet_, number_);
  addresses_ = std::make_unique<peer::AddressBook>(fleet_.nodes);
  const std::vector<uint32_t>& list = fleet_.lists[number_];
  for (uint32_t place = 0; place < list.size(); ++place) {
    addresses_->set(place, fleet_.addresses[list[place]]);
  }
  options.addresses = addresses_.get();
  const uint32_t shards = options.sessions.shards;
  group_ = std::make_unique<server::WorkerGroup>(
      route::MeshOptions{.shards = shards, .routing_seed = options.sessions.routing_seed});
  io::SimOptions io_options = fleet_.io;
  io_options.node = number_;
  io_options.sockets_max = server::sockets_max(options);
  shards_.resize(shards);
  for (uint32_t id = 0; id < shards; ++id) {
    Shard& shard = shards_[id];
    options.sessions.shard = id;
    shard.lanes_lost.resize(fleet_.nodes);
    shard.io = std::make_unique<io::SimIo>(io_options, network_);
    shard.node_io = std::make_unique<NodeIo>(*shard.io, in_transit_);
    server::Deciders deciders = server::make_deciders(options);
    deciders.keys = std::make_unique<WatchedKeys>(
        std::move(deciders.keys), oracle_,
        DecidingShard{.node = number_, .start = starts_, .shard = id});
    shard.worker =
        std::make_unique<server::Worker>(*shard.node_io, options, *group_, std::move(deciders));
    io::PeerAddress address = fleet_.addresses[number_];
    shard.io->listen(server::http_listener, address);
    address.port = fleet_native_port;
    shard.io->listen(server::native_listener, address);
  }
  for (Shard& shard : shards_) shard.worker->start();
}

// As a process that is killed: its kernel ends all connections.
void Node::crash() {
  shards_.clear();
  group_.reset();
  for (const int fd : in_transit_) {
    if (network_.is_released(fd)) network_.link(network_.take(fd)).abort();
  }
  in_transit_.clear();
  for (const uint32_t link : clients_) network_.link(link).abort();
  clients_.clear();
  oracle_.on_crash(number_);
  is_paused_ = false;
}

bool Node::sleeps_on(const Shard& shard) const {
  if (!shard.is_asleep || shard.io->has_event_pending() || shard.io->is_sending()) return false;
  if (shard.worker->has_messages()) {
    failure_.report("a worker sleeps although a message was sent to it: a wake was missed");
  }
  return network_.clock().monotonic_ns < shard.wakes_ns;
}

void Node::step() {
  const uint64_t first = random_.below(shards_.size());
  for (uint64_t i = 0; i < shards_.size() && !failure_; ++i) {
    Shard& shard = shards_[(first + i) % shards_.size()];
    if (!sleeps_on(shard) && !random_.chance(held_share)) turn(shard);
  }
}

void Node::turn(Shard& shard) {
  shard.worker->turn(0);
  note_lanes(shard);
  const int64_t sleep_ns = shard.worker->prepare_poll();
  shard.is_asleep = sleep_ns > 0;
  shard.wakes_ns = network_.clock().monotonic_ns + sleep_ns;
}

void Node::note_lanes(Shard& shard) {
  const auto& peers = shard.worker->peers()->all();
  for (uint32_t i = 0; i < peers.size(); ++i) {
    const uint32_t own_place = static_cast<uint32_t>(
        std::ranges::find(fleet_.lists[number_], number_) - fleet_.lists[number_].begin());
    const uint32_t node = fleet_.lists[number_][i < own_place ? i : i + 1];
    const uint64_t lost = peers[i]->counts().links_lost;
    if (lost == shard.lanes_lost[node]) continue;
    oracle_.trace("node " + std::to_string(number_) + " loses a lane to node " +
                  std::to_string(node) + ": " + peers[i]->why_down());
    oracle_.count(FleetEvent::lane_lost, lost - shard.lanes_lost[node]);
    oracle_.note_lane_lost(number_, node);
    shard.lanes_lost[node] = lost;
  }
}

bool Node::is_asleep() {
  return std::ranges::all_of(shards_, [this](const Shard& shard) { return sleeps_on(shard); });
}

int64_t Node::wakes_ns() const {
  int64_t next_ns = INT64_MAX;
  for (const Shard& shard : shards_) next_ns = std::min(next_ns, shard.wakes_ns);
  return next_ns;
}

void Node::begin_drain() {
  for (Shard& shard : shards_) {
    shard.worker->begin_drain();
    shard.is_asleep = false;
  }
}

bool Node::is_drained() const {
  return std::ranges::all_of(shards_, [](const Shard& shard) { return shard.worker->drained(); });
}

void Node::check_idle() const {
  const auto none = [&](uint64_t count, const char* what) {
    if (count == 0) return;
    failure_.report("node " + std::to_string(number_) + " has " + std::to_string(count) + " " +
                    what + " left");
  };
  for (const Shard& shard : shards_) {
    const server::Worker& worker = *shard.worker;
    none(worker.tickets_count(), "tickets");
    none(worker.waiting_frames_count(), "waiting frames");
    none(worker.keys().waiters_count(), "waiters");
    none(worker.undecided().requests().size(), "undecided requests");
    none(worker.router().book().open_count(), "split requests");
    none(worker.router().book().waiting_bytes(), "bytes for answers of others");
    none(worker.idle() ? 0 : 1, "workers that are not idle");
    worker.check_invariants();
  }
}

io::SimClient Node::connect(io::ListenerId listener) {
  Shard& shard = shards_[random_.below(shards_.size())];
  const io::SimClient client = shard.io->connect(listener);
  clients_.push_back(client.link_id());
  return client;
}

uint32_t Node::waiters_count() const {
  uint32_t count = 0;
  for (const Shard& shard : shards_) count += shard.worker->keys().waiters_count();
  return count;
}

std::string Node::describe() const {
  std::string text = "\n  node " + std::to_string(number_) + (has_started() ? "" : " is down") +
                     (is_paused_ ? " is paused" : "");
  for (const Shard& shard : shards_) {
    const server::Worker& worker = *shard.worker;
    text += "\n    " + std::string(shard.is_asleep ? "sleeps" : "is awake") +
            (worker.idle() ? ", is idle, " : ", ") + (worker.drained() ? "drained, " : "") +
            std::to_string(worker.sessions_count()) + " sessions, " +
            std::to_string(shard.io->sockets_open()) + " sockets, " +
            std::to_string(worker.router().book().open_count()) + " split requests, " +
            std::to_string(worker.tickets_count()) + " tickets, " +
            std::to_string(worker.keys().waiters_count()) + " waiters";
  }
  return text;
}

}  // namespace sluice::simulation
