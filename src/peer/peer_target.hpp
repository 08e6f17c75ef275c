// The keys of another node, or of one of its shards, as Mailboxes addresses them.
// Flow:   open(), post() -> flush() -> a Link -> on_answers() -> deliver() -> the worker, which
//         takes the answers out of the message as if a shard of this node had returned it.
// Shape:  while the link has enough unanswered, entries gather in one message.
// Errors: without a link, and when the owner does not answer in time, the FailurePolicy answers.
//         A message is never sent twice.
// Bounds: messages_count messages; without a free one, requests for this target wait.
// Lives:  one per target, one thread only.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"
#include "peer/context.hpp"
#include "peer/link.hpp"
#include "peer/outgoing.hpp"
#include "peer/peer_counts.hpp"
#include "route/mailboxes.hpp"

namespace sluice::peer {

class PeerTarget final : public route::Target {
 public:
  static constexpr uint32_t messages_count = 8;
  static constexpr uint32_t entries_max = 1'024;  // with which a message is full
  static_assert(messages_count * entries_max <= route::NodeMap::target_entries_max);

  PeerTarget(route::TargetId id, Context& context, PeerCounts& counts);

  bool has_room(uint32_t entries_count, size_t text_bytes) const noexcept override {
    if (is_held_) return false;
    return !free_.empty() ||
           (open_ != nullptr && open_->message.has_room(entries_count, text_bytes));
  }
  route::ShardMessage& open(uint32_t entries_count, size_t text_bytes) noexcept override;
  void end_part() noexcept override;
  void post(route::Notice& notice) noexcept override;
  bool flush() noexcept override;
  bool idle() const noexcept override;

  // Takes no more entries until it is resumed. Those that it has are answered meanwhile, or given
  // up.
  void hold() noexcept;
  void resume() noexcept;

  // What only shards of this node are sent.
  void post(route::ShardTask task) noexcept override;
  void post(route::Handover&& handover) noexcept override;
  bool post(const api::Grant& grant) noexcept override;

  // From now on messages leave through `link`, until on_lost().
  void connect(Link& link) noexcept;
  bool is_connected() const noexcept { return link_ != nullptr; }
  // The answers to so many entries of a message are written into it, unless it is given up.
  void on_answers(Outgoing& outgoing, uint32_t entries_count) noexcept;
  // The policy's answer for this entry is written into it; or none, if this node stands in.
  void answer_by_policy(Outgoing& outgoing, uint32_t entry, api::Op op) noexcept;
  // Shards of this node have decided what the policy has left to them.
  void on_stood_in(Outgoing& outgoing) noexcept;
  // The link is gone: entries without an answer will have none.
  void on_lost(std::span<Outgoing* const> unanswered) noexcept;
  // The policy answers messages whose first entry joined before `opened_before_ms`.
  void give_up(int64_t opened_before_ms) noexcept;

  // Calls `handler.on_returned(id, message)` for each message with answers.
  template <typename Handler>
  void deliver(Handler& handler) noexcept;

 private:
  bool is_full() const noexcept {
    return is_held_ || (free_.empty() && (open_ == nullptr || open_->message.is_full()));
  }
  Outgoing* to_fill() noexcept;
  Outgoing& close_open() noexcept;
  void send() noexcept;
  bool send_notices() noexcept;
  void answer_by_policy(Outgoing& outgoing) noexcept;
  void end_sent(Outgoing& outgoing) noexcept;
  void push_returned(Outgoing& outgoing) noexcept;
  void free(Outgoing& outgoing) noexcept;
  void note_fullness() noexcept;

  const route::TargetId id_;
  Context& context_;
  PeerCounts& counts_;
  const base::MappedRegion memory_;
  std::vector<std::unique_ptr<Outgoing>> messages_;
  std::vector<Outgoing*> free_;
  Outgoing* open_ = nullptr;
  std::vector<Outgoing*> sent_;      // neither answered nor given up yet
  std::vector<Outgoing*> returned_;  // to be delivered
  boost::intrusive::list<route::Notice, boost::intrusive::constant_time_size<false>> notices_;
  Link* link_ = nullptr;
  uint32_t stand_ins_count_ = 0;  // messages that shards of this node decide
  bool is_held_ = false;
  bool is_counted_full_ = false;
};

template <typename Handler>
void PeerTarget::deliver(Handler& handler) noexcept {
  for (size_t i = 0; i < returned_.size(); ++i) {
    Outgoing& outgoing = *returned_[i];
    handler.on_returned(id_, outgoing.message);
    if (outgoing.unanswered_count == 0) {
      free(outgoing);
    } else {
      ASSERT(outgoing.is_given_up());
      outgoing.stage = Outgoing::Stage::delivered;
    }
  }
  returned_.clear();
  if (is_held_ && idle()) context_.has_changed = true;
}

}  // namespace sluice::peer
