// One shard's side of the mesh: finds the owner of each entry, sends shard messages to the other
// shards, and receives theirs.
// Flow:   split(turn) -> the book and a Target per owner -> flush() -> messages -> the owner's
//         receive() -> the owner's handler -> our receive() -> the handler, the book -> delivery.
// Shape:  entries of one connection for one key stay in order, because everything between two
//         shards passes the same queues: pending entries, messages, the ring. Notices about
//         waiters go first; they have no order with entries that their connection did not wait
//         for.
// Errors: nothing is dropped. When the other shard takes no more, entries stay in the book until
//         has_turn_room() returns false, which makes sessions read less; tickets bound the notices.
// Lives:  one thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/key_hash.hpp"
#include "route/mesh.hpp"
#include "route/ring_target.hpp"
#include "route/split_book.hpp"
#include "route/turn.hpp"

namespace sluice::route {

class Mailboxes {
 public:
  Mailboxes(Mesh& mesh, api::ShardId shard, const SplitOptions& options);

  bool is_only_shard() const noexcept { return shards_count_ == 1; }
  api::ShardId shard() const noexcept { return shard_; }
  uint32_t shards_count() const noexcept { return shards_count_; }
  Owner here() const noexcept { return {.shard = shard_}; }
  Owner owner_of(std::string_view key) const noexcept {
    if (is_only_shard()) return here();
    const uint64_t hash = proto::routing_hash(key, mesh_.routing_seed());
    return {.shard = static_cast<api::ShardId>(proto::owner_shard(hash, shards_count_))};
  }

  // Whether the book has room for a request that joins the turn.
  bool has_turn_room(const Turn& turn, uint32_t entries_count, size_t key_bytes) const noexcept {
    return is_only_shard() ||
           book_.has_room(turn.entries_count() + entries_count, turn.key_bytes() + key_bytes);
  }

  // Called before the turn is decided: queues entries of other shards for their owners, and marks
  // them `other_shard` here.
  void split(Turn& turn) noexcept;
  // Called after it: puts the answers to the entries that this shard decided into the book.
  void keep_decided(const Request& request, Turn& turn) noexcept;

  SplitBook& book() noexcept { return book_; }
  const SplitBook& book() const noexcept { return book_; }

  // To another shard of this node.
  void post(api::ShardId shard, Notice& notice) noexcept { target({.shard = shard}).post(notice); }
  void post(api::ShardId shard, ShardTask task) noexcept { target({.shard = shard}).post(task); }
  void post(api::ShardId shard, Handover&& handover) noexcept {
    target({.shard = shard}).post(std::move(handover));
  }
  // False: the target takes no more in this turn.
  bool post(const api::Grant& grant) noexcept {
    return target({.shard = grant.origin}).post(grant);
  }

  // Sends what is queued, as far as there are messages.
  void flush() noexcept;

  // Calls `handler.on_message(origin, message)` for each message of another shard, which the
  // handler answers in place, and `handler.on_returned(target, message)` for each of ours that has
  // returned. Returns whether there was any.
  template <typename Handler>
  bool receive(Handler& handler) noexcept;

  // Calls `wake` for each shard that was sent something while its worker sleeps.
  template <typename Wake>
  void ring_doorbells(Wake wake) noexcept;

  // To be called before a poll() that waits; false: there is something to do first.
  bool prepare_sleep() noexcept;
  void mark_awake() noexcept { mesh_.doorbell(shard_).mark_awake(); }

  bool has_messages() noexcept;

  // Between two turns: a message of ours has not returned. It does with its owner's next turn.
  bool awaits_return() const noexcept;

  // Nothing is queued or lent, and no request waits for a part.
  bool idle() const noexcept;

  uint64_t other_shard_entries() const noexcept { return other_shard_entries_; }
  uint64_t wakes() const noexcept { return wakes_; }
  // How often something had to wait because the other shard had not returned a message yet.
  uint64_t full_count() const noexcept;

 private:
  // Another shard of this node: there is no other node yet.
  Target& target(Owner owner) noexcept {
    ASSERT(owner.node == here().node);
    ASSERT(owner != here());
    return *targets_[owner.shard];
  }
  void split(Request& request, Turn& turn) noexcept;

  Mesh& mesh_;
  const api::ShardId shard_;
  const uint32_t shards_count_;
  SplitBook book_;
  std::vector<uint32_t> next_;  // the slot that is queued behind each slot
  // By shard; null for this one.
  std::vector<std::unique_ptr<RingTarget>> targets_;
  std::vector<uint64_t> tails_;
  uint64_t other_shard_entries_ = 0;
  uint64_t wakes_ = 0;
};

template <typename Handler>
bool Mailboxes::receive(Handler& handler) noexcept {
  bool received = false;
  // The tails of the request rings are read first: the owner pushes a grant after the reply with
  // `queued`, so if the grant is seen here that reply is seen below, and handled before the grant.
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other != shard_) tails_[other] = mesh_.mailbox(other, shard_).requests.tail();
  }
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    Ring<ShardMessage>& replies = mesh_.mailbox(shard_, other).replies;
    const uint64_t tail = replies.tail();
    while (ShardMessage* message = replies.pop(tail)) {
      handler.on_returned(static_cast<api::ShardId>(other), *message);
      targets_[other]->free(*message);
      received = true;
    }
  }
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    Mailbox& mailbox = mesh_.mailbox(other, shard_);
    while (ShardMessage* message = mailbox.requests.pop(tails_[other])) {
      handler.on_message(static_cast<api::ShardId>(other), *message);
      mailbox.replies.push(message);
      targets_[other]->mark_wake();
      received = true;
    }
  }
  return received;
}

template <typename Wake>
void Mailboxes::ring_doorbells(Wake wake) noexcept {
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_ || !targets_[other]->take_wake()) continue;
    if (!mesh_.doorbell(other).ring()) continue;
    ++wakes_;
    wake(other);
  }
}

}  // namespace sluice::route
