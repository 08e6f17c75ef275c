#include "route/ring_target.hpp"

#include <iterator>

#include "base/assert.hpp"

namespace sluice::route {

RingTarget::RingTarget(Mailbox& mailbox, Senders& senders, api::ShardId from, LentCounts& lent)
    : mailbox_(mailbox), senders_(senders), from_(from), lent_(lent) {
  free_.reserve(mailbox.messages.size());
  for (const auto& message : mailbox.messages) free_.push_back(message.get());
}

ShardMessage& RingTarget::open(uint32_t entries_count, size_t text_bytes) noexcept {
  ShardMessage* message = message_to_fill();
  if (message != nullptr && !message->has_room(entries_count, text_bytes)) {
    send();
    message = message_to_fill();
  }
  ASSERT(message != nullptr);
  return *message;
}

void RingTarget::post(Notice& notice) noexcept {
  ASSERT(!notice.is_linked());
  notices_.push_back(notice);
}

bool RingTarget::post(const api::Grant& grant) noexcept {
  ShardMessage* message = message_to_fill();
  if (message != nullptr && !message->takes_grants()) {
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
    note_fullness();
  }
  return open_message_;
}

void RingTarget::fill(ShardMessage& message) noexcept {
  while (!notices_.empty() && message.takes_notices()) {
    Notice& notice = notices_.front();
    notices_.pop_front();
    notice.under_way = true;
    message.notices.push_back(notice);
  }
  message.tasks.insert(message.tasks.end(), tasks_.begin(), tasks_.end());
  tasks_.clear();
  std::move(handovers_.begin(), handovers_.end(), std::back_inserter(message.handovers));
  handovers_.clear();
}

bool RingTarget::flush() noexcept {
  while (pending() || open_message_ != nullptr) {
    ShardMessage* message = message_to_fill();
    if (message == nullptr) {
      ++full_count_;
      return false;
    }
    fill(*message);
    send();
  }
  return true;
}

void RingTarget::send() noexcept {
  ++lent_.messages;
  lent_.entries += open_message_->entries_count();
  mailbox_.requests.push(std::exchange(open_message_, nullptr));
  senders_.add(from_);
  note_fullness();
}

bool RingTarget::idle() const noexcept {
  return !pending() && free_.size() == mailbox_.messages.size();
}

}  // namespace sluice::route
