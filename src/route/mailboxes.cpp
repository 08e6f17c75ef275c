#include "route/mailboxes.hpp"

#include <algorithm>

namespace sluice::route {

Mailboxes::Mailboxes(Mesh& mesh, api::ShardId shard, const SplitOptions& options)
    : mesh_(mesh),
      shard_(shard),
      shards_count_(mesh.shards_count()),
      book_(mesh.shards_count() > 1 ? options
                                    : SplitOptions{.entries_max = 1, .text_bytes_max = 1}),
      next_(mesh.shards_count() > 1 ? options.entries_max : 0),
      targets_(mesh.shards_count()),
      tails_(mesh.shards_count()) {
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    targets_[other] = std::make_unique<RingTarget>(mesh_.mailbox(shard_, other), book_, next_);
  }
}

void Mailboxes::split(Turn& turn) noexcept {
  if (is_only_shard()) return;
  for (Request& request : turn.requests()) {
    if (!request.by_handle) split(request, turn);
  }
}

void Mailboxes::split(Request& request, Turn& turn) noexcept {
  const std::span entries = turn.entries().subspan(request.first_entry, request.entries_count);
  for (uint32_t place = 0; place < entries.size(); ++place) {
    api::Entry& entry = entries[place];
    const Owner owner = owner_of(entry.key());
    if (owner == here()) continue;
    if (request.split == Request::whole) request.split = book_.open(request);
    const uint32_t slot = book_.slot(request.split, place);
    book_.put(slot, entry);
    target(owner).queue(slot);
    ++other_shard_entries_;
    entry.op = api::Op::other_shard;
  }
}

void Mailboxes::keep_decided(const Request& request, Turn& turn) noexcept {
  for (uint32_t place = 0; place < request.entries_count; ++place) {
    const uint32_t index = request.first_entry + place;
    const api::Entry& entry = turn.entries()[index];
    if (entry.op == api::Op::other_shard) continue;
    book_.put_decided(book_.slot(request.split, place), entry, turn.verdicts()[index],
                      turn.details()[index]);
  }
}

void Mailboxes::flush() noexcept {
  for (const auto& shard : targets_) {
    if (shard) shard->flush();
  }
}

uint64_t Mailboxes::full_count() const noexcept {
  uint64_t count = 0;
  for (const auto& shard : targets_) count += shard ? shard->full_count() : 0;
  return count;
}

bool Mailboxes::has_messages() noexcept {
  for (uint32_t other = 0; other < shards_count_; ++other) {
    if (other == shard_) continue;
    if (!mesh_.mailbox(other, shard_).requests.empty()) return true;
    if (!mesh_.mailbox(shard_, other).replies.empty()) return true;
  }
  return false;
}

bool Mailboxes::awaits_return() const noexcept {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const auto& shard) { return shard && shard->is_lent(); });
}

bool Mailboxes::prepare_sleep() noexcept {
  if (is_only_shard()) return true;
  mesh_.doorbell(shard_).mark_asleep();
  return !has_messages();
}

bool Mailboxes::idle() const noexcept {
  return book_.open_count() == 0 &&
         std::all_of(targets_.begin(), targets_.end(),
                     [](const auto& shard) { return !shard || shard->idle(); });
}

}  // namespace sluice::route
