#include "route/exchange.hpp"

#include <algorithm>

namespace sluice::route {

Exchange::Exchange(Mesh& mesh, api::CoreId core, const SplitOptions& options)
    : mesh_(mesh),
      core_(core),
      cores_(mesh.cores()),
      book_(mesh.cores() > 1 ? options : SplitOptions{.entries_max = 1, .text_bytes_max = 1}),
      next_(mesh.cores() > 1 ? options.entries_max : 0),
      out_(mesh.cores()),
      tails_(mesh.cores()) {
  for (uint32_t target = 0; target < cores_; ++target) {
    if (target == core_) continue;
    Mailbox& mailbox = mesh_.mailbox(core_, target);
    out_[target].free.reserve(mailbox.messages.size());
    for (const auto& message : mailbox.messages) out_[target].free.push_back(message.get());
  }
}

void Exchange::split(Turn& turn) noexcept {
  if (alone()) return;
  for (Request& request : turn.requests()) {
    if (!request.by_handle) split(request, turn);
  }
}

void Exchange::split(Request& request, Turn& turn) noexcept {
  const std::span entries = turn.entries().subspan(request.first_entry, request.entries_count);
  for (uint32_t place = 0; place < entries.size(); ++place) {
    api::Entry& entry = entries[place];
    const api::CoreId owner = owner_of(entry.key());
    if (owner == core_) continue;
    if (request.split == Request::whole) request.split = book_.open(request);
    const uint32_t slot = book_.slot(request.split, place);
    book_.put(slot, entry);
    queue(owner, slot);
    entry.op = api::Op::elsewhere;
  }
}

void Exchange::keep_decided(const Request& request, Turn& turn) noexcept {
  for (uint32_t place = 0; place < request.entries_count; ++place) {
    const uint32_t index = request.first_entry + place;
    const api::Entry& entry = turn.entries()[index];
    if (entry.op == api::Op::elsewhere) continue;
    book_.put_decided(book_.slot(request.split, place), entry, turn.verdicts()[index],
                      turn.details()[index], turn.waiters()[index]);
  }
}

void Exchange::queue(api::CoreId target, uint32_t slot) noexcept {
  Outgoing& out = out_[target];
  next_[slot] = none;
  (out.first == none ? out.first : next_[out.last]) = slot;
  out.last = slot;
  ++crossed_entries_;
}

void Exchange::post(api::CoreId target, Notice& notice) noexcept {
  ASSERT(target != core_ && !notice.is_linked());
  out_[target].notices.push_back(notice);
}

bool Exchange::post(const api::Grant& grant) noexcept {
  Outgoing& out = out_[grant.origin];
  ShardMessage* message = filling(out);
  if (message != nullptr && message->grants.size() == message->entries_max) {
    send(grant.origin);
    message = filling(out);
  }
  if (message == nullptr) return false;
  message->grants.push_back(grant);
  return true;
}

// The message that is being filled, or another that is free.
ShardMessage* Exchange::filling(Outgoing& out) noexcept {
  if (out.filling == nullptr && !out.free.empty()) {
    out.filling = out.free.back();
    out.free.pop_back();
  }
  return out.filling;
}

void Exchange::fill(Outgoing& out, ShardMessage& message) noexcept {
  while (!out.notices.empty() && message.notices.size() < message.entries_max) {
    Notice& notice = out.notices.front();
    out.notices.pop_front();
    notice.under_way = true;
    message.notices.push_back(notice);
  }
  while (out.first != none && message.entries.size() < message.entries_max) {
    message.entries.push_back(book_.entry(out.first));
    message.slots.push_back(out.first);
    out.first = next_[out.first];
  }
  message.tasks.insert(message.tasks.end(), out.tasks.begin(), out.tasks.end());
  out.tasks.clear();
  std::move(out.handovers.begin(), out.handovers.end(), std::back_inserter(message.handovers));
  out.handovers.clear();
}

void Exchange::flush() noexcept {
  for (uint32_t target = 0; target < cores_; ++target) {
    Outgoing& out = out_[target];
    while (out.pending() || out.filling != nullptr) {
      ShardMessage* message = filling(out);
      if (message == nullptr) {
        ++full_count_;
        break;
      }
      fill(out, *message);
      send(target);
    }
  }
}

void Exchange::send(uint32_t target) noexcept {
  Outgoing& out = out_[target];
  ShardMessage* message = std::exchange(out.filling, nullptr);
  mesh_.mailbox(core_, target).requests.push(message);
  out.ring = true;
}

bool Exchange::anything_came() noexcept {
  for (uint32_t other = 0; other < cores_; ++other) {
    if (other == core_) continue;
    if (!mesh_.mailbox(other, core_).requests.empty()) return true;
    if (!mesh_.mailbox(core_, other).replies.empty()) return true;
  }
  return false;
}

bool Exchange::will_sleep() noexcept {
  if (alone()) return true;
  mesh_.doorbell(core_).will_sleep();
  return !anything_came();
}

bool Exchange::idle() const noexcept {
  if (book_.open_count() > 0) return false;
  for (uint32_t target = 0; target < cores_; ++target) {
    const Outgoing& out = out_[target];
    if (target == core_) continue;
    if (out.pending() || out.free.size() != mesh_.mailbox(core_, target).messages.size()) {
      return false;
    }
  }
  return true;
}

}  // namespace sluice::route
