// One core's side of the mesh: which entries are whose, what goes to other cores and comes back.
// Flow:   split(turn) -> the book and a Target per owner -> flush() -> messages -> the owner's
//         receive() -> the owner's handler -> our receive() -> the handler, the book -> delivery.
// Shape:  entries of one connection for one key stay in order: everything between two cores goes
//         through one queue after the other: pending entries, messages, the ring. Notices
//         about waiters go first; they have no order with entries that their connection did not
//         wait for.
// Errors: nothing is dropped. When the other core takes no more, entries stay in the book until
//         admits() says no, which makes sessions read less; notices are bounded by tickets.
// Lives:  one core only.
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

class Exchange {
 public:
  Exchange(Mesh& mesh, api::ShardId shard, const SplitOptions& options);

  bool alone() const noexcept { return shards_count_ == 1; }
  api::ShardId shard() const noexcept { return shard_; }
  uint32_t shards_count() const noexcept { return shards_count_; }
  Owner here() const noexcept { return {.shard = shard_}; }
  Owner owner_of(std::string_view key) const noexcept {
    if (alone()) return here();
    const uint64_t hash = proto::routing_hash(key, mesh_.routing_seed());
    return {.shard = static_cast<api::ShardId>(proto::owner_shard(hash, shards_count_))};
  }

  // Whether a request that joins the turn will find room in the book.
  bool admits(const Turn& turn, uint32_t entries_count, size_t key_bytes) const noexcept {
    return alone() ||
           book_.has_room(turn.entries_count() + entries_count, turn.key_bytes() + key_bytes);
  }

  // Before the turn is decided: entries of other cores are queued for them, and `elsewhere` here.
  void split(Turn& turn) noexcept;
  // After it: the answers to a split request's own entries go into the book.
  void keep_decided(const Request& request, Turn& turn) noexcept;

  SplitBook& book() noexcept { return book_; }
  const SplitBook& book() const noexcept { return book_; }

  // To another shard of this node.
  void post(api::ShardId shard, Notice& notice) noexcept { target({.shard = shard}).post(notice); }
  void post(api::ShardId shard, ShardTask task) noexcept { target({.shard = shard}).post(task); }
  void post(api::ShardId shard, Handover&& handover) noexcept {
    target({.shard = shard}).post(std::move(handover));
  }
  // False: it takes no more in this turn.
  bool post(const api::Grant& grant) noexcept {
    return target({.shard = grant.origin}).post(grant);
  }

  // Sends what is queued, as far as there are messages.
  void flush() noexcept;

  // `handler.on_message(origin, message)` for what others ask, answered in place;
  // `handler.on_returned(target, message)` for what comes back. Whether there was anything.
  template <typename Handler>
  bool receive(Handler& handler) noexcept;

  // The cores that have to be woken: each was sent something and sleeps.
  template <typename Wake>
  void ring_doorbells(Wake wake) noexcept;

  // Around a poll() that waits: false when there is something to do first.
  bool will_sleep() noexcept;
  void mark_awake() noexcept { mesh_.doorbell(shard_).mark_awake(); }

  bool anything_came() noexcept;

  // Nothing is queued, lent, or waits for a part.
  bool idle() const noexcept;

  uint64_t crossed_entries() const noexcept { return crossed_entries_; }
  uint64_t wakes() const noexcept { return wakes_; }
  // Times that something had to wait because the other shard had not given a message back.
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
  std::vector<uint32_t> next_;  // of a queued slot
  // By their number; null: this one.
  std::vector<std::unique_ptr<RingTarget>> targets_;
  std::vector<uint64_t> tails_;
  uint64_t crossed_entries_ = 0;
  uint64_t wakes_ = 0;
};

template <typename Handler>
bool Exchange::receive(Handler& handler) noexcept {
  bool received = false;
  // The tails of what others ask are read first: a grant is pushed after the reply that says
  // `queued`, so whoever sees the grant here sees that reply below, and takes it first.
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
void Exchange::ring_doorbells(Wake wake) noexcept {
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_ || !targets_[other]->take_wake()) continue;
    if (!mesh_.doorbell(other).ring()) continue;
    ++wakes_;
    wake(other);
  }
}

}  // namespace sluice::route
