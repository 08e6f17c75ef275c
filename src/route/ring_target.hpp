// A shard of this process: what is posted goes to it in messages, through the rings of a mailbox.
// Flow:   post() -> flush() -> a free message -> the mailbox's requests -> the other shard answers
//         in place -> the mailbox's replies -> free().
// Shape:  there are as many messages as places in the rings. Notices go first, then entries.
// Errors: without a free message everything waits; full_count() counts how often.
// Lives:  one thread only; the mailbox is shared with the other shard, and outlives both.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "route/mesh.hpp"
#include "route/split_book.hpp"
#include "route/target.hpp"

namespace sluice::route {

class RingTarget final : public Target {
 public:
  // `next`: the links of the queue of entries, which are slots of the book.
  RingTarget(Mailbox& mailbox, const SplitBook& book, std::span<uint32_t> next);

  void post(Notice& notice) noexcept override;
  void post(ShardTask task) noexcept override { tasks_.push_back(task); }
  void post(Handover&& handover) noexcept override { handovers_.push_back(std::move(handover)); }
  bool post(const api::Grant& grant) noexcept override;
  void flush() noexcept override;
  bool idle() const noexcept override;

  // The message has returned, and its answers were taken out.
  void free(ShardMessage& message) noexcept {
    message.clear();
    free_.push_back(&message);
  }

  // The other shard has to be woken at the end of the turn, if it sleeps.
  void mark_wake() noexcept { wake_ = true; }
  bool take_wake() noexcept { return std::exchange(wake_, false); }

  // A message that was sent has not returned.
  bool is_lent() const noexcept { return free_.size() < mailbox_.messages.size(); }

  // How often something had to wait because the other shard had not returned a message yet.
  uint64_t full_count() const noexcept { return full_count_; }

 private:
  bool pending() const noexcept {
    return !entries_.empty() || !notices_.empty() || !tasks_.empty() || !handovers_.empty();
  }
  ShardMessage* message_to_fill() noexcept;
  void fill(ShardMessage& message) noexcept;
  void send() noexcept;

  Mailbox& mailbox_;
  const SplitBook& book_;
  std::vector<ShardMessage*> free_;
  ShardMessage* open_message_ = nullptr;
  boost::intrusive::list<Notice, boost::intrusive::constant_time_size<false>> notices_;
  std::vector<ShardTask> tasks_;
  std::vector<Handover> handovers_;
  bool wake_ = false;
  uint64_t full_count_ = 0;
};

}  // namespace sluice::route
