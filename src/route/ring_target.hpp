// A shard of this process: what is posted goes to it in messages, through the rings of a mailbox.
// Flow:   open(), post() -> a free message -> flush(), or as soon as the message is full and there
//         is another -> the mailbox's requests -> the other shard answers in place -> its replies
//         -> free().
// Shape:  there are as many messages as places in the rings.
// Errors: without a free message notices and tasks wait; full_count() counts how often.
// Lives:  one thread only; the mailbox is shared with the other shard, and outlives both.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "route/mesh.hpp"
#include "route/target.hpp"

namespace sluice::route {

// Of all targets of a shard together.
struct LentCounts {
  uint32_t full_targets = 0;  // that take no entry
  uint32_t messages = 0;      // that have not returned
  uint32_t entries = 0;       // in these

  // A target takes no entry any more, or takes some again.
  void note_fullness(bool is_full) noexcept {
    if (is_full) {
      ++full_targets;
    } else {
      --full_targets;
    }
  }
};

class RingTarget final : public Target {
 public:
  // Of the shard `from`.
  RingTarget(Mailbox& mailbox, Senders& senders, api::ShardId from, LentCounts& lent);

  bool has_room(uint32_t entries_count, size_t text_bytes) const noexcept override {
    return !free_.empty() ||
           (open_message_ != nullptr && open_message_->has_room(entries_count, text_bytes));
  }
  ShardMessage& open(uint32_t entries_count, size_t text_bytes) noexcept override;
  // A full message leaves at once, but for the last one: it takes what is posted in this turn
  // along, so that entries, however many, keep nothing else from leaving.
  void end_part() noexcept override {
    if (open_message_->is_full() && !free_.empty()) send();
    note_fullness();
  }
  void post(Notice& notice) noexcept override;
  void post(ShardTask task) noexcept override { tasks_.push_back(task); }
  void post(Handover&& handover) noexcept override { handovers_.push_back(std::move(handover)); }
  bool post(const api::Grant& grant) noexcept override;
  bool flush() noexcept override;
  bool idle() const noexcept override;

  // The message has returned, and its answers were taken out.
  void free(ShardMessage& message) noexcept {
    --lent_.messages;
    lent_.entries -= message.entries_count();
    message.clear();
    free_.push_back(&message);
    note_fullness();
  }

  // No message is left for even one entry.
  bool is_full() const noexcept {
    return free_.empty() && (open_message_ == nullptr || open_message_->is_full());
  }

  // How often something had to wait because the other shard had not returned a message yet.
  uint64_t full_count() const noexcept { return full_count_; }

 private:
  bool pending() const noexcept {
    return !notices_.empty() || !tasks_.empty() || !handovers_.empty();
  }
  ShardMessage* message_to_fill() noexcept;
  void fill(ShardMessage& message) noexcept;
  void send() noexcept;
  void note_fullness() noexcept {
    const bool is_full_now = is_full();
    if (std::exchange(is_counted_full_, is_full_now) != is_full_now) {
      lent_.note_fullness(is_full_now);
    }
  }

  Mailbox& mailbox_;
  Senders& senders_;  // the other shard's
  const api::ShardId from_;
  LentCounts& lent_;
  std::vector<ShardMessage*> free_;
  ShardMessage* open_message_ = nullptr;
  boost::intrusive::list<Notice, boost::intrusive::constant_time_size<false>> notices_;
  std::vector<ShardTask> tasks_;
  std::vector<Handover> handovers_;
  bool is_counted_full_ = false;
  uint64_t full_count_ = 0;
};

}  // namespace sluice::route
