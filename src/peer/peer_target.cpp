#include "peer/peer_target.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace sluice::peer {

using api::Verdict;
using route::Notice;
using route::ShardMessage;

namespace {

uint32_t undecided_count(const ShardMessage& message) noexcept {
  const auto verdicts = message.verdicts(0, message.entries_count());
  return static_cast<uint32_t>(std::ranges::count(verdicts, Verdict::none));
}

}  // namespace

PeerTarget::PeerTarget(route::TargetId id, Context& context, PeerCounts& counts)
    : id_(id),
      context_(context),
      counts_(counts),
      memory_(messages_count * ShardMessage::memory_bytes(entries_max), "messages to other nodes") {
  std::byte* memory = memory_.data();
  for (uint32_t i = 0; i < messages_count; ++i) {
    messages_.push_back(std::make_unique<Outgoing>(entries_max, memory));
    free_.push_back(messages_.back().get());
    memory += ShardMessage::memory_bytes(entries_max);
  }
  sent_.reserve(messages_count);
  returned_.reserve(messages_count);
}

// --- To the owner --------------------------------------------------------------------------

Outgoing* PeerTarget::to_fill() noexcept {
  if (open_ == nullptr && !free_.empty()) {
    open_ = free_.back();
    free_.pop_back();
    note_fullness();
  }
  return open_;
}

ShardMessage& PeerTarget::open(uint32_t entries_count, size_t text_bytes) noexcept {
  Outgoing* outgoing = to_fill();
  if (outgoing != nullptr && !outgoing->message.has_room(entries_count, text_bytes)) {
    send();
    outgoing = to_fill();
  }
  ASSERT(outgoing != nullptr);
  if (outgoing->message.entries_count() == 0) outgoing->opened_ms = context_.now_ms;
  return outgoing->message;
}

void PeerTarget::end_part() noexcept {
  if (open_->message.is_full() && !free_.empty()) send();
  note_fullness();
}

void PeerTarget::hold() noexcept {
  is_held_ = true;
  note_fullness();
}

void PeerTarget::resume() noexcept {
  if (!std::exchange(is_held_, false)) return;
  note_fullness();
  context_.mailboxes.note_room(id_);
}

void PeerTarget::post(Notice& notice) noexcept {
  ASSERT(!notice.is_linked());
  notices_.push_back(notice);
}

void PeerTarget::post(route::ShardTask) noexcept {
  ASSERT(false);
}
void PeerTarget::post(route::Handover&&) noexcept {
  ASSERT(false);
}
bool PeerTarget::post(const api::Grant&) noexcept {
  ASSERT(false);
  return false;
}

// No more entries join it, and none has an answer yet.
Outgoing& PeerTarget::close_open() noexcept {
  Outgoing& outgoing = *std::exchange(open_, nullptr);
  const uint32_t count = outgoing.message.entries_count();
  std::ranges::fill(outgoing.message.verdicts(0, count), Verdict::none);
  outgoing.unanswered_count = count;
  outgoing.stage = Outgoing::Stage::awaited;
  return outgoing;
}

void PeerTarget::send() noexcept {
  Outgoing& outgoing = close_open();
  if (link_ != nullptr) {
    counts_.forwarded_entries += outgoing.unanswered_count;
    sent_.push_back(&outgoing);
    link_->send(outgoing);
  } else {
    outgoing.unanswered_count = 0;
    answer_by_policy(outgoing);
  }
  note_fullness();
}

bool PeerTarget::flush() noexcept {
  if (!send_notices()) return false;
  if (open_ == nullptr) return true;
  if (link_ != nullptr && !link_->takes_message()) return false;
  send();
  return true;
}

// A waiter that leaves is withdrawn: its outcome follows, and is refunded if it was granted. The
// notice is done at once, because no answer to it is needed.
bool PeerTarget::send_notices() noexcept {
  while (!notices_.empty()) {
    if (link_ != nullptr && !link_->takes_notice()) return false;
    Notice& notice = notices_.front();
    notices_.pop_front();
    notice.under_way = true;
    const bool is_refund = notice.kind == Notice::Kind::refund;
    if (link_ != nullptr && is_refund) link_->refund(notice.refund_claim);
    if (link_ != nullptr && !is_refund) link_->withdraw(notice.waiter, notice.ticket);
    context_.notices_done.push_back(notice);
  }
  return true;
}

// --- Answers -------------------------------------------------------------------------------

void PeerTarget::connect(Link& link) noexcept {
  ASSERT(link_ == nullptr);
  link_ = &link;
  ++counts_.links_up;
}

void PeerTarget::on_answers(Outgoing& outgoing, uint32_t entries_count) noexcept {
  ASSERT(outgoing.unanswered_count >= entries_count);
  outgoing.unanswered_count -= entries_count;
  if (outgoing.is_given_up()) {
    counts_.late_answers += entries_count;
    const bool is_delivered = outgoing.stage == Outgoing::Stage::delivered;
    if (outgoing.unanswered_count == 0 && is_delivered) free(outgoing);
    return;
  }
  if (outgoing.unanswered_count > 0) return;
  std::erase(sent_, &outgoing);
  end_sent(outgoing);
}

void PeerTarget::on_lost(std::span<Outgoing* const> unanswered) noexcept {
  ASSERT(link_ != nullptr);
  link_ = nullptr;
  --counts_.links_up;
  ++counts_.links_lost;
  for (Outgoing* const outgoing : unanswered) {
    outgoing->unanswered_count = 0;
    if (!outgoing->is_given_up()) {
      std::erase(sent_, outgoing);
      answer_by_policy(*outgoing);
    } else if (outgoing->stage == Outgoing::Stage::delivered) {
      free(*outgoing);
    }
  }
  ASSERT(sent_.empty());
}

void PeerTarget::give_up(int64_t opened_before_ms) noexcept {
  while (!sent_.empty() && sent_.front()->opened_ms < opened_before_ms) {
    Outgoing& outgoing = *sent_.front();
    sent_.erase(sent_.begin());
    outgoing.stage = Outgoing::Stage::given_up;
    if (link_ != nullptr) outgoing.unanswered_count -= link_->take_back(outgoing);
    answer_by_policy(outgoing);
  }
  if (open_ == nullptr || open_->opened_ms >= opened_before_ms) return;
  Outgoing& gathered = close_open();
  gathered.unanswered_count = 0;
  answer_by_policy(gathered);
  note_fullness();
}

void PeerTarget::answer_by_policy(Outgoing& outgoing, uint32_t entry, api::Op op) noexcept {
  if (context_.policy.stands_in()) {
    outgoing.message.verdicts(entry, 1)[0] = Verdict::none;  // it counts with the whole message
    return;
  }
  ++counts_.failed_entries;
  outgoing.message.verdicts(entry, 1)[0] = context_.policy.verdict(op);
  outgoing.message.details(entry, 1)[0] = context_.policy.detail(op);
}

// All that have no answer.
void PeerTarget::answer_by_policy(Outgoing& outgoing) noexcept {
  const ShardMessage& message = outgoing.message;
  for (const route::MessageRun& run : message.runs()) {
    const bool is_detailed = run.form == route::Form::detailed;
    for (uint32_t entry = run.first_entry; entry < run.first_entry + run.entries_count; ++entry) {
      if (message.verdicts(entry, 1)[0] != Verdict::none) continue;
      const api::Op op = is_detailed ? message.entries(entry, 1)[0].op : api::Op::acquire;
      answer_by_policy(outgoing, entry, op);
    }
  }
  end_sent(outgoing);
}

void PeerTarget::on_stood_in(Outgoing& outgoing) noexcept {
  ASSERT(stand_ins_count_ > 0);
  --stand_ins_count_;
  push_returned(outgoing);
}

// The owner answers no more of it, or too late. Shards of this node decide what has no answer, if
// this node stands in.
void PeerTarget::end_sent(Outgoing& outgoing) noexcept {
  const uint32_t left = context_.policy.stands_in() ? undecided_count(outgoing.message) : 0;
  if (left == 0) return push_returned(outgoing);
  counts_.failed_entries += left;
  ++stand_ins_count_;
  context_.stranded.push_back({this, &outgoing});
}

// It has all answers.
void PeerTarget::push_returned(Outgoing& outgoing) noexcept {
  if (returned_.empty()) context_.returned.push_back(this);
  returned_.push_back(&outgoing);
}

void PeerTarget::free(Outgoing& outgoing) noexcept {
  outgoing.message.clear();
  free_.push_back(&outgoing);
  note_fullness();
  context_.mailboxes.note_room(id_);
}

void PeerTarget::note_fullness() noexcept {
  const bool is_full_now = is_full();
  if (std::exchange(is_counted_full_, is_full_now) != is_full_now) {
    context_.mailboxes.note_fullness(is_full_now);
  }
}

bool PeerTarget::idle() const noexcept {
  return notices_.empty() && open_ == nullptr && sent_.empty() && returned_.empty() &&
         stand_ins_count_ == 0;
}

}  // namespace sluice::peer
