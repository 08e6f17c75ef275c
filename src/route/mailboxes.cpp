#include "route/mailboxes.hpp"

#include <algorithm>
#include <utility>

namespace sluice::route {

Mailboxes::Mailboxes(Mesh& mesh, api::ShardId shard, NodeMap nodes)
    : mesh_(mesh),
      shard_(shard),
      shards_count_(mesh.shards_count()),
      nodes_(std::move(nodes)),
      senders_(mesh.senders(shard)),
      rings_(mesh.shards_count()),
      targets_(mesh.shards_count() + nodes_.targets_count()),
      is_only_target_(targets_.size() == 1),
      tails_(mesh.shards_count()),
      is_to_wake_(mesh.shards_count()),
      is_to_flush_(targets_.size()),
      is_awaited_(targets_.size()) {
  if (!nodes_.is_alone()) {
    nodes_.set_shards(nodes_.own_node(), shards_count_, mesh.routing_seed());
  }
  to_flush_.reserve(targets_.size());
  to_wake_.reserve(shards_count_);
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    rings_[other] = std::make_unique<RingTarget>(mesh_.mailbox(shard_, other), mesh_.senders(other),
                                                 shard_, lent_);
    targets_[other] = rings_[other].get();
  }
}

// Targets for which something still waits are flushed again in the next turn.
void Mailboxes::flush() noexcept {
  size_t left_count = 0;
  for (const TargetId id : to_flush_) {
    mark_wake(id);
    if (targets_[id]->flush()) {
      is_to_flush_[id] = 0;
    } else {
      to_flush_[left_count++] = id;
    }
  }
  to_flush_.resize(left_count);
}

void Mailboxes::free(api::ShardId shard, ShardMessage& message) noexcept {
  rings_[shard]->free(message);
  note_room(shard);
}

uint64_t Mailboxes::full_count() const noexcept {
  uint64_t count = 0;
  for (const auto& ring : rings_) count += ring ? ring->full_count() : 0;
  return count;
}

bool Mailboxes::prepare_sleep() noexcept {
  if (is_only_shard()) return true;
  mesh_.doorbell(shard_).mark_asleep();
  return !has_messages();
}

bool Mailboxes::idle() const noexcept {
  return std::all_of(targets_.begin(), targets_.end(),
                     [](const Target* target) { return !target || target->idle(); });
}

}  // namespace sluice::route
