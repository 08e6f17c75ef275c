#include "route/ring_target.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"

namespace sluice::route {

RingTarget::RingTarget(Mailbox& mailbox, const SplitBook& book, std::span<uint32_t> next)
    : Target(next), mailbox_(mailbox), book_(book) {
  free_.reserve(mailbox.messages.size());
  for (const auto& message : mailbox.messages) free_.push_back(message.get());
}

void RingTarget::post(Notice& notice) noexcept {
  ASSERT(!notice.is_linked());
  notices_.push_back(notice);
}

bool RingTarget::post(const api::Grant& grant) noexcept {
  ShardMessage* message = message_to_fill();
  if (message != nullptr && message->grants.size() == message->entries_max) {
    send();
    message = message_to_fill();
  }
  if (message == nullptr) return false;
  message->grants.push_back(grant);
  return true;
}

// The message that is being filled, or another that is free.
ShardMessage* RingTarget::message_to_fill() noexcept {
  if (open_message_ == nullptr && !free_.empty()) {
    open_message_ = free_.back();
    free_.pop_back();
  }
  return open_message_;
}

void RingTarget::fill(ShardMessage& message) noexcept {
  while (!notices_.empty() && message.notices.size() < message.entries_max) {
    Notice& notice = notices_.front();
    notices_.pop_front();
    notice.under_way = true;
    message.notices.push_back(notice);
  }
  while (!entries_.empty() && message.entries.size() < message.entries_max) {
    const uint32_t slot = entries_.pop();
    message.entries.push_back(book_.entry(slot));
    message.slots.push_back(slot);
  }
  message.tasks.insert(message.tasks.end(), tasks_.begin(), tasks_.end());
  tasks_.clear();
  std::move(handovers_.begin(), handovers_.end(), std::back_inserter(message.handovers));
  handovers_.clear();
}

void RingTarget::flush() noexcept {
  while (pending() || open_message_ != nullptr) {
    ShardMessage* message = message_to_fill();
    if (message == nullptr) {
      ++full_count_;
      return;
    }
    fill(*message);
    send();
  }
}

void RingTarget::send() noexcept {
  mailbox_.requests.push(std::exchange(open_message_, nullptr));
  wake_ = true;
}

bool RingTarget::idle() const noexcept {
  return !pending() && free_.size() == mailbox_.messages.size();
}

}  // namespace sluice::route
