#include "route/mailboxes.hpp"

#include <algorithm>

namespace sluice::route {

Mailboxes::Mailboxes(Mesh& mesh, api::ShardId shard)
    : mesh_(mesh),
      shard_(shard),
      shards_count_(mesh.shards_count()),
      senders_(mesh.senders(shard)),
      targets_(mesh.shards_count()),
      tails_(mesh.shards_count()),
      is_to_flush_(mesh.shards_count()),
      is_to_wake_(mesh.shards_count()),
      is_awaited_(mesh.shards_count()) {
  to_flush_.reserve(shards_count_);
  to_wake_.reserve(shards_count_);
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    targets_[other] = std::make_unique<RingTarget>(mesh_.mailbox(shard_, other),
                                                   mesh_.senders(other), shard_, lent_);
  }
}

void Mailboxes::flush() noexcept {
  std::erase_if(to_flush_, [this](api::ShardId shard) {
    mark_wake(shard);
    if (!targets_[shard]->flush()) return false;
    is_to_flush_[shard] = 0;
    return true;
  });
}

void Mailboxes::free(api::ShardId shard, ShardMessage& message) noexcept {
  ring_target(shard).free(message);
  if (!is_awaited_[shard]) return;
  is_awaited_[shard] = 0;
  room_made_ = true;
}

uint64_t Mailboxes::full_count() const noexcept {
  uint64_t count = 0;
  for (const auto& shard : targets_) count += shard ? shard->full_count() : 0;
  return count;
}

bool Mailboxes::prepare_sleep() noexcept {
  if (is_only_shard()) return true;
  mesh_.doorbell(shard_).mark_asleep();
  return !has_messages();
}

bool Mailboxes::idle() const noexcept {
  return std::all_of(targets_.begin(), targets_.end(),
                     [](const auto& shard) { return !shard || shard->idle(); });
}

}  // namespace sluice::route
