// Nodes that share keys and quotas, as far as a client sees them: each has shards, says which node
// it is and which others there are, approves every request, and notes what it was asked for.
// Flow:   FakeFleet -> a FakeServer for each node -> what the client asked of which shard.
// Lives:  a node that is killed ends its connections; start() makes another instance of it at the
//         same port.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client_scripts.hpp"
#include "proto/node_hash.hpp"
#include "proto/reservation_id.hpp"
#include "quota_scripts.hpp"

namespace sluicegate::test {

inline constexpr uint64_t features_of_nodes = 31;

// The requests of one key or several that a node has answered.
struct AskedKey {
  std::string key;
  uint32_t shard = 0;
  bool operator==(const AskedKey&) const = default;
};

// A call about quotas that a node has answered: its first subject, or its reservation; neither, if
// it concerns all that the node has.
struct AskedQuota {
  Which kind{};
  std::string subject;
  uint64_t reservation = 0;
  uint32_t shard = 0;
};

class FakeFleet {
 public:
  explicit FakeFleet(uint32_t nodes_count, uint32_t shards = 1) {
    for (uint32_t place = 0; place < nodes_count; ++place) {
      nodes_.push_back(std::make_unique<Node>());
      Node& node = *nodes_.back();
      node.shards = shards;
      node.says_place = place;
      start(place);
      node.named_port = node.port;
    }
  }
  ~FakeFleet() {
    for (uint32_t place = 0; place < nodes_.size(); ++place) kill(place);
  }
  FakeFleet(const FakeFleet&) = delete;
  FakeFleet& operator=(const FakeFleet&) = delete;

  std::string address(uint32_t place) const {
    return "127.0.0.1:" + std::to_string(nodes_[place]->port);
  }

  uint16_t port(uint32_t place) const { return nodes_[place]->port; }

  void kill(uint32_t place) {
    Node& node = *nodes_[place];
    {
      const std::lock_guard lock{mutex_};
      node.is_dead = true;
      for (Peer* peer : node.peers) peer->cut();
    }
    node.server.reset();
  }
  // Another instance, at the same port; clients that asked hear of it once report() is called.
  void start(uint32_t place) {
    Node& node = *nodes_[place];
    {
      const std::lock_guard lock{mutex_};
      node.is_dead = false;
      node.instance = ++instances_;
    }
    node.server = std::make_unique<FakeServer>([this, place](Peer& peer) { serve(place, peer); },
                                               1'000, node.port);
    node.port = node.server->port();
  }

  // What all nodes say of this one from now on.
  void name_port(uint32_t place, uint16_t port) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->named_port = port;
  }
  // What the node says of itself.
  void say_place(uint32_t place, uint32_t says) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->says_place = says;
  }
  void set_digest(uint32_t place, uint64_t digest) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->digest = digest;
  }
  void set_shards(uint32_t place, uint32_t shards) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->shards = shards;
  }

  // The node sends all clients that asked the change.
  void report(uint32_t place) {
    const std::lock_guard lock{mutex_};
    for (Peer* peer : nodes_[place]->watchers) peer->write(topology(place, 0));
  }
  void go_away(uint32_t place) {
    const std::lock_guard lock{mutex_};
    for (Peer* peer : nodes_[place]->peers) {
      peer->write(test::answer(0, [](auto frame) { frame.initGoAway().setReason("restart"); }));
    }
  }

  std::vector<AskedKey> asked(uint32_t place) {
    const std::lock_guard lock{mutex_};
    return nodes_[place]->asked;
  }
  std::vector<std::string> keys(uint32_t place) {
    std::vector<std::string> keys;
    for (const AskedKey& each : asked(place)) keys.push_back(each.key);
    return keys;
  }
  void forget() {
    const std::lock_guard lock{mutex_};
    for (auto& node : nodes_) {
      node->asked.clear();
      node->asked_quotas.clear();
    }
  }
  size_t questions_for_nodes() {
    const std::lock_guard lock{mutex_};
    size_t sum = 0;
    for (auto& node : nodes_) sum += node->questions;
    return sum;
  }
  size_t pings(uint32_t place) {
    const std::lock_guard lock{mutex_};
    return nodes_[place]->pings;
  }
  std::vector<AskedQuota> asked_quotas(uint32_t place) {
    const std::lock_guard lock{mutex_};
    return nodes_[place]->asked_quotas;
  }
  // From now on the node answers no acquire and no call about quotas.
  void hold(uint32_t place) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->holds = true;
  }
  // From now on the node knows no reservation when it is settled.
  void lose_reservations(uint32_t place) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->has_no_reservations = true;
  }
  // From now on acquires and reserves wait in its queue until they are withdrawn.
  void queue(uint32_t place) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->queues = true;
  }
  // So many frames may be under way on its later connections.
  void take_frames(uint32_t place, uint32_t frames_max) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->frames_max = frames_max;
  }
  // From now on it takes connections, and does not say which node it is.
  void be_silent(uint32_t place) {
    const std::lock_guard lock{mutex_};
    nodes_[place]->is_silent = true;
  }
  // The nodes that have welcomed a connection, one after the other.
  std::vector<uint32_t> welcomes() {
    const std::lock_guard lock{mutex_};
    return welcomes_;
  }

  static uint64_t routing_seed(uint32_t place) { return 1'000 + place; }

 private:
  struct Node {
    std::unique_ptr<FakeServer> server;
    uint16_t port = 0;
    uint16_t named_port = 0;
    uint32_t says_place = 0;
    uint32_t shards = 1;
    uint64_t digest = 77;
    uint64_t instance = 0;
    bool is_dead = false;
    bool holds = false;
    bool queues = false;
    bool is_silent = false;
    bool has_no_reservations = false;
    uint32_t frames_max = 0;  // 0: as other fake servers
    size_t questions = 0;
    size_t pings = 0;
    std::set<Peer*> peers;
    std::set<Peer*> watchers;
    std::vector<AskedKey> asked;
    std::vector<AskedQuota> asked_quotas;
    std::set<uint64_t> queued_reserves;  // frames of one entry
  };

  void serve(uint32_t place, Peer& peer) {
    Node& node = *nodes_[place];
    {
      const std::lock_guard lock{mutex_};
      if (node.is_dead) return;
      node.peers.insert(&peer);
    }
    try {
      answer_all(place, peer);
    } catch (const std::exception&) {
      // The client left, or the node was killed.
    }
    const std::lock_guard lock{mutex_};
    node.peers.erase(&peer);
    node.watchers.erase(&peer);
  }

  void answer_all(uint32_t place, Peer& peer) {
    Node& node = *nodes_[place];
    const auto hello = peer.read().getHello();
    const uint32_t shard = hello.getWantedShard() == 0 ? 0 : hello.getWantedShard() - 1;
    peer.write(welcome_of(place, shard));
    for (;;) {
      const auto frame = peer.read();
      const Question question = question_of(frame);
      const ReceivedFrame quota_call = received_of(frame);
      const std::lock_guard lock{mutex_};
      if (question.kind == schema::ClientFrame::TOPOLOGY) {
        ++node.questions;
        if (node.is_silent) continue;
        node.watchers.insert(&peer);
        peer.write(topology(place, question.id));
        continue;
      }
      const bool may_be_held =
          question.kind == schema::ClientFrame::ACQUIRE || is_about_quotas(question.kind);
      if (node.holds && may_be_held) continue;
      if (is_about_quotas(question.kind)) {
        answer_quota_call(node, shard, quota_call, peer);
      } else {
        answer_one(node, shard, question, peer);
      }
    }
  }

  static bool is_about_quotas(Which kind) {
    switch (kind) {
      case schema::ClientFrame::RESERVE:
      case schema::ClientFrame::CHECK:
      case schema::ClientFrame::SETTLE:
      case schema::ClientFrame::CANCEL:
      case schema::ClientFrame::EXTEND:
      case schema::ClientFrame::RECORD:
      case schema::ClientFrame::CONSUME:
      case schema::ClientFrame::USAGE:
      case schema::ClientFrame::QUOTA:
      case schema::ClientFrame::RESET:
        return true;
      default:
        return false;
    }
  }

  void answer_quota_call(Node& node, uint32_t shard, const ReceivedFrame& call, Peer& peer) {
    const auto note = [&](std::string subject, uint64_t reservation) {
      node.asked_quotas.push_back({call.kind, std::move(subject), reservation, shard});
    };
    const std::vector<std::string> first_subjects = call.first_subjects();
    for (const std::string& subject : first_subjects) note(subject, 0);
    for (const uint64_t reservation : call.reservations) note({}, reservation);
    if (call.entries() == 0) note({}, 0);
    if (call.kind == schema::ClientFrame::USAGE) return peer.write(usage_of(call));
    if (node.queues && call.kind == schema::ClientFrame::RESERVE) {
      node.queued_reserves.insert(call.id);
      return peer.write(answers(call.id, call.entries(), {QuotaCode::queued}));
    }
    if (node.has_no_reservations && call.kind == schema::ClientFrame::SETTLE) {
      return peer.write(answers(call.id, call.entries(), {QuotaCode::unknown_reservation}));
    }
    std::vector<uint64_t> given;
    if (call.kind == schema::ClientFrame::RESERVE) {
      for (const std::string& subject : first_subjects) given.push_back(reserve(subject));
    }
    peer.write(answers(call.id, call.entries(), {QuotaCode::ok}, given));
  }

  // The id of a new reservation of the subject's owner.
  uint64_t reserve(const std::string& subject) {
    const auto count = static_cast<uint32_t>(nodes_.size());
    const uint32_t owner = sluice::proto::subject_node(subject, count);
    const uint64_t hash = sluice::proto::routing_hash(subject, routing_seed(owner));
    return sluice::proto::reservation_id::make(sluice::proto::route_of_hash(hash), false,
                                               ++reservations_,
                                               sluice::proto::reservation_id::slot_of_node(owner));
  }

  void answer_one(Node& node, uint32_t shard, const Question& question, Peer& peer) {
    for (const std::string& key : question.keys) node.asked.push_back({key, shard});
    switch (question.kind) {
      case schema::ClientFrame::PING:
        ++node.pings;
        return peer.write(pong(question.id));
      case schema::ClientFrame::INTERN:
        return peer.write(interned_from(question, 0));
      case schema::ClientFrame::INSPECT:
        return peer.write(test::answer(question.id, [](auto frame) { frame.initInspected(); }));
      case schema::ClientFrame::WITHDRAW:
        if (node.queued_reserves.erase(question.target) > 0) {
          peer.write(test::granted(question.target, QuotaCode::withdrawn, 0));
        } else {
          peer.write(test::granted(question.target, question.numbers,
                                   std::vector<uint8_t>(question.numbers.size(), withdrawn)));
        }
        return peer.write(done(question.id));
      case schema::ClientFrame::RELEASE:
        return peer.write(done(question.id));
      default:
        return peer.write(verdict_for_all(question, node.queues ? queued : approved));
    }
  }

  std::string welcome_of(uint32_t place, uint32_t shard) {
    const std::lock_guard lock{mutex_};
    const Node& node = *nodes_[place];
    welcomes_.push_back(place);
    return welcome_with([&](schema::Welcome::Builder to) {
      to.setShard(shard);
      to.setShards(node.shards);
      to.setRoutingSeed(routing_seed(place));
      to.setInstanceId(node.instance);
      to.setFeatures(features_of_nodes);
      if (node.frames_max > 0) to.setOutstandingFramesMax(node.frames_max);
    });
  }

  // With the lock.
  std::string topology(uint32_t place, uint64_t id) {
    return test::answer(id, [&](auto frame) {
      auto reply = frame.initTopologyReply();
      const auto count = static_cast<uint32_t>(nodes_.size());
      reply.setListDigest(nodes_[place]->digest);
      reply.setNodeHash(schema::NodeHash::FNV1A);
      reply.setOwnNode(static_cast<uint16_t>(nodes_[place]->says_place));
      const std::string host = "127.0.0.1";
      std::string hosts;
      for (uint32_t i = 0; i < count; ++i) hosts += host;
      reply.setHosts(kj::StringPtr(hosts.c_str()).asBytes());
      auto sizes = reply.initHostSizes(count);
      auto rest_ports = reply.initRestPorts(count);
      auto native_ports = reply.initNativePorts(count);
      auto shards = reply.initShards(count);
      auto seeds = reply.initRoutingSeeds(count);
      auto instances = reply.initInstanceIds(count);
      for (uint32_t i = 0; i < count; ++i) {
        sizes.set(i, static_cast<uint16_t>(host.size()));
        rest_ports.set(i, 80);
        native_ports.set(i, nodes_[i]->named_port);
        shards.set(i, nodes_[i]->shards);
        seeds.set(i, routing_seed(i));
        instances.set(i, nodes_[i]->instance);
      }
    });
  }

  std::mutex mutex_;
  uint64_t instances_ = 100;
  uint64_t reservations_ = 0;
  std::vector<uint32_t> welcomes_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace sluicegate::test
