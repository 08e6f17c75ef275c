// Decides in place of another node that has not answered (--peer-failure local): entries that were
// sent to it, or gathered for it, go to the shards of this node that own their keys, as all later
// ones do while the other node is away. They are not sent to another node.
// Flow:   begin(): a task for each shard that has some of a message's entries -> decide() there ->
//         on_decided(): the answers go into the message; with the last one it returns as if the
//         other node had answered.
// Lives:  one per worker, one thread only. Off the request path: allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "peer/outgoing.hpp"
#include "peer/peer_target.hpp"
#include "route/mailboxes.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

// Entries of one message, of the keys of one shard. Keys and overrides lie in the message, which
// nobody writes to meanwhile but at the answers.
struct StandInTask {
  peer::PeerTarget* target = nullptr;
  peer::Outgoing* outgoing = nullptr;
  api::ShardId origin = 0;
  std::vector<uint32_t> places;  // in the message
  std::vector<api::Entry> entries;
  std::vector<api::Verdict> verdicts;
  std::vector<api::Detail> details;
  std::vector<api::WaiterId> waiters;
};

class StandIn {
 public:
  StandIn(session::Context& context, route::Mailboxes& mailboxes, shard::KeyDecider& keys);

  // Entries without a verdict are decided; the target is informed when all are.
  void begin(peer::PeerTarget& target, peer::Outgoing& outgoing) noexcept;
  // At the shard that owns the keys.
  void decide(StandInTask& task) noexcept;
  // At the shard that has asked.
  void on_decided(StandInTask& task) noexcept;

 private:
  using Task = std::unique_ptr<StandInTask>;

  void add(peer::PeerTarget& target, peer::Outgoing& outgoing, uint32_t place,
           const api::Entry& entry) noexcept;

  session::Context& context_;
  route::Mailboxes& mailboxes_;
  shard::KeyDecider& keys_;
  std::vector<Task> filling_;  // by shard; null: it has none of the present message
  std::vector<Task> tasks_;    // under way
};

}  // namespace sluice::server
