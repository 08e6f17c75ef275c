// One shard's side of the mesh: sends shard messages to the other shards, and receives theirs.
// Flow:   open() and post() -> a Target per shard -> flush() -> messages -> the owner's receive()
//         -> the owner's handler -> our receive() -> the handler.
//         Lanes to other nodes are targets, too; their messages return through their own class.
// Shape:  entries of one connection for one key stay in order, because everything between two
//         shards passes the same messages and rings. Notices about waiters have no order with
//         entries that their connection did not wait for.
// Errors: nothing is dropped. When another shard takes no more, requests for it do not join the
//         turn (EntryRouter); tickets bound the notices.
// Lives:  one thread only.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/key_hash.hpp"
#include "route/mesh.hpp"
#include "route/node_map.hpp"
#include "route/ring_target.hpp"

namespace sluice::route {

class Mailboxes {
 public:
  Mailboxes(Mesh& mesh, api::ShardId shard, NodeMap nodes = {});

  bool is_only_shard() const noexcept { return shards_count_ == 1; }
  // Whether every key is this shard's.
  bool is_only_target() const noexcept { return is_only_target_; }
  // Shards of this node, and targets of others.
  uint32_t targets_count() const noexcept { return static_cast<uint32_t>(targets_.size()); }
  NodeMap& nodes() noexcept { return nodes_; }
  const NodeMap& nodes() const noexcept { return nodes_; }
  api::ShardId shard() const noexcept { return shard_; }
  uint32_t shards_count() const noexcept { return shards_count_; }
  // Entries of this shard's connections that others may be deciding.
  uint32_t lent_entries_max() const noexcept {
    return (shards_count_ - 1) * mesh_.pair_entries_max() +
           nodes_.targets_count() * NodeMap::target_entries_max;
  }
  // The shard of this node that owns a key.
  api::ShardId shard_of(std::string_view key) const noexcept {
    if (is_only_shard()) return shard_;
    const uint64_t hash = proto::routing_hash(key, mesh_.routing_seed());
    return static_cast<api::ShardId>(proto::owner_shard(hash, shards_count_));
  }

  // The target that leads to the owner of a key.
  TargetId target_of(std::string_view key, Reach reach) const noexcept {
    const bool stays = reach == Reach::node || nodes_.is_alone();
    return stays ? shard_of(key) : nodes_.target_of(key);
  }
  // A target of another node has this number from now on; it outlives this object.
  void attach(TargetId id, Target& target) noexcept { targets_[id] = &target; }

  // A part of a request for another target; target(id).has_room() was true. The caller fills it,
  // and calls target(id).end_part().
  ShardMessage& open(TargetId id, uint32_t entries_count, size_t text_bytes) noexcept {
    return posts_to(id).open(entries_count, text_bytes);
  }
  Target& target(TargetId id) noexcept {
    ASSERT(id != shard_);
    return *targets_[id];
  }
  const Target& target(TargetId id) const noexcept { return *targets_[id]; }
  // A request finds no room there: take_room_made() says when to try again.
  void await_room(TargetId id) noexcept { is_awaited_[id] = 1; }
  bool take_room_made() noexcept { return std::exchange(room_made_, false); }
  // The target has room now.
  void note_room(TargetId id) noexcept {
    if (std::exchange(is_awaited_[id], 0)) room_made_ = true;
  }
  // Whether there are targets that take no entry.
  bool is_any_full() const noexcept { return lent_.full_targets > 0; }

  void post(TargetId id, Notice& notice) noexcept { posts_to(id).post(notice); }
  // To another shard of this node.
  void post(api::ShardId shard, ShardTask task) noexcept { posts_to(shard).post(task); }
  void post(api::ShardId shard, Handover&& handover) noexcept {
    posts_to(shard).post(std::move(handover));
  }
  // False: the target takes no more in this turn.
  bool post(const api::Grant& grant) noexcept { return posts_to(grant.origin).post(grant); }

  // Sends what was posted, as far as there are messages.
  void flush() noexcept;

  // Calls `handler.on_message(origin, message)` for each message of another shard, which the
  // handler answers in place, and `handler.on_returned(target, message)` for each of ours that has
  // returned.
  template <typename Handler>
  void receive(Handler& handler) noexcept;

  // Calls `wake` for each shard that was sent something while its worker sleeps.
  template <typename Wake>
  void ring_doorbells(Wake wake) noexcept;

  // To be called before a poll() that waits; false: there is something to do first.
  bool prepare_sleep() noexcept;
  void mark_awake() noexcept { mesh_.doorbell(shard_).mark_awake(); }

  bool has_messages() const noexcept { return !senders_.empty(); }

  // What other shards have of this one's, and return with their next turns.
  const LentCounts& lent() const noexcept { return lent_; }
  // A target of another node takes no entry any more, or takes some again.
  void note_fullness(bool is_full) noexcept { lent_.note_fullness(is_full); }

  // Nothing is queued or lent.
  bool idle() const noexcept;

  uint64_t wakes() const noexcept { return wakes_; }
  // How often something had to wait because the other shard had not returned a message yet.
  uint64_t full_count() const noexcept;

 private:
  // The target, which has something to flush from now on.
  Target& posts_to(TargetId id) noexcept {
    if (!std::exchange(is_to_flush_[id], 1)) to_flush_.push_back(id);
    return target(id);
  }
  void mark_wake(TargetId id) noexcept {
    if (id >= shards_count_) return;  // a node, which is woken by what it receives
    if (!std::exchange(is_to_wake_[id], 1)) to_wake_.push_back(id);
  }
  void free(api::ShardId shard, ShardMessage& message) noexcept;
  template <typename Visit>
  static void for_each(const Senders::Bits& shards, Visit visit) noexcept;

  Mesh& mesh_;
  const api::ShardId shard_;
  const uint32_t shards_count_;
  NodeMap nodes_;
  Senders& senders_;                                // who has sent this shard something
  std::vector<std::unique_ptr<RingTarget>> rings_;  // by shard; null for this one
  std::vector<Target*> targets_;                    // rings, and those of other nodes
  const bool is_only_target_;
  std::vector<uint64_t> tails_;
  std::vector<char> is_to_wake_;                // by shard
  std::vector<char> is_to_flush_, is_awaited_;  // by target
  std::vector<TargetId> to_flush_, to_wake_;
  LentCounts lent_;
  bool room_made_ = false;
  uint64_t wakes_ = 0;
};

template <typename Visit>
void Mailboxes::for_each(const Senders::Bits& shards, Visit visit) noexcept {
  for (size_t word = 0; word < shards.size(); ++word) {
    for (uint64_t left = shards[word]; left != 0; left &= left - 1) {
      visit(static_cast<api::ShardId>(word * 64 + static_cast<size_t>(std::countr_zero(left))));
    }
  }
}

template <typename Handler>
void Mailboxes::receive(Handler& handler) noexcept {
  if (senders_.empty()) return;
  Senders::Bits shards{};
  senders_.take(shards);
  // The tails of the request rings are read first: the owner pushes a grant after the reply with
  // `queued`, so if the grant is seen here that reply is seen below, and handled before the grant.
  for_each(shards, [&](api::ShardId other) {
    tails_[other] = mesh_.mailbox(other, shard_).requests.tail();
  });
  for_each(shards, [&](api::ShardId other) {
    Ring<ShardMessage>& replies = mesh_.mailbox(shard_, other).replies;
    const uint64_t tail = replies.tail();
    while (ShardMessage* message = replies.pop(tail)) {
      handler.on_returned(other, *message);
      free(other, *message);
    }
  });
  for_each(shards, [&](api::ShardId other) {
    Mailbox& mailbox = mesh_.mailbox(other, shard_);
    while (ShardMessage* message = mailbox.requests.pop(tails_[other])) {
      handler.on_message(other, *message);
      mailbox.replies.push(message);
      mesh_.senders(other).add(shard_);
      mark_wake(other);
    }
  });
}

template <typename Wake>
void Mailboxes::ring_doorbells(Wake wake) noexcept {
  for (const api::ShardId other : to_wake_) {
    is_to_wake_[other] = 0;
    if (!mesh_.doorbell(other).ring()) continue;
    ++wakes_;
    wake(other);
  }
  to_wake_.clear();
}

}  // namespace sluice::route
