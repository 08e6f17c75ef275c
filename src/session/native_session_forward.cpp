// Entries that another node forwards, and permits that it returns.
#include <new>

#include "base/smaller_limit.hpp"
#include "session/native_session.hpp"

namespace sluice::session {
namespace {

// The clocks of two shards are read once a loop iteration each, so one may lag behind the other.
constexpr int64_t shard_clocks_lag_ms_max = 100;

// A node that has no room for a waiter of its client decides that the entry cannot wait.
uint8_t no_room_flags(uint8_t wait_bits) noexcept {
  uint8_t flags = 0;
  if ((wait_bits & wire::entry_bit::waiters_full) != 0) flags |= api::flag::waiters_full;
  if ((wait_bits & wire::entry_bit::connection_waiters_full) != 0) {
    flags |= api::flag::connection_waiters_full;
  }
  return flags;
}

uint8_t detail_flags(uint8_t wishes) noexcept {
  uint8_t flags = 0;
  if ((wishes & wire::entry_detail_bit::wants_details) != 0) flags |= api::flag::wants_details;
  if ((wishes & wire::entry_detail_bit::takes_id) != 0) flags |= api::flag::shows_id;
  return flags;
}

}  // namespace

void NativeSession::on_forward(uint64_t id, size_t frame_bytes,
                               const wire::ForwardRequest& forward) noexcept {
  if (!admit(id, frame_bytes)) return;
  note_forward(id);
  context_.misrouted.count({.text = forward.keys, .sizes = forward.key_sizes});
  if (forward.has_defaults_only()) return add_plain(request_of(id, frame_bytes, decides), forward);
  route::Request request = request_of(id, frame_bytes, forwards);
  request.detail_bits = forward.detail_bits;
  request.has_mixed_ids = !forward.entry_details.empty();
  const auto entries = context_.turn.add(request, static_cast<uint32_t>(forward.key_sizes.size()));
  route::fill_entries(entries, forward.keys.data(), forward.key_sizes);
  fill_forward(entries, forward);
  context_.backend.send_last();
}

void NativeSession::fill_forward(std::span<api::Entry> entries,
                                 const wire::ForwardRequest& forward) noexcept {
  fill_terms(entries, forward);
  for (size_t i = 0; i < forward.operations.size(); ++i) {
    const auto op = static_cast<api::Op>(forward.operations[i]);
    if (op != api::Op::acquire) entries[i].op = op;  // one of cost 0 is a look
  }
  for (size_t i = 0; i < forward.entry_details.size(); ++i) {
    entries[i].flags = detail_flags(forward.detail_wishes(i));
  }
  if (forward.has_wait_flags()) take_tickets(entries, forward);
}

void NativeSession::take_tickets(std::span<api::Entry> entries,
                                 const wire::ForwardRequest& forward) noexcept {
  const uint64_t waiting = waiting_count(context_, WaitsFor::permits);
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const uint8_t wait_bits = forward.wait_bits(i);
    api::Entry& entry = entries[i];
    if ((wait_bits & wire::entry_bit::may_wait) == 0 || entry.op != api::Op::acquire) continue;
    entry.flags |= api::flag::may_wait;
    entry.wait_ms_max = base::smaller_limit(forward.wait_limit(i), context_.options.wait_ms_max);
    const uint8_t no_room = no_room_flags(wait_bits);
    // Clients of many connections share this one: their node bounds each of them.
    entry.flags |= no_room != 0 ? no_room
                                : take_ticket(context_, tickets_, place_of(i), WaitsFor::permits,
                                              waiting, entry.ticket, context_.options.waiters_max);
  }
}

// Without memory for it, nothing of the frame is credited if it is answered too late.
void NativeSession::note_forward(uint64_t id) noexcept {
  if (forward_times_ == nullptr) forward_times_.reset(new (std::nothrow) ForwardTimes);
  if (forward_times_ != nullptr) forward_times_->note(id, context_.now_ms());
}

// When a window must have begun so that permits of this Forward were taken from it.
std::optional<int64_t> NativeSession::not_after_ms(uint64_t forward_id) const noexcept {
  if (forward_times_ == nullptr) return std::nullopt;
  std::optional<int64_t> time_ms = forward_times_->find(forward_id);
  if (time_ms && context_.options.shards > 1) *time_ms -= shard_clocks_lag_ms_max;
  return time_ms;
}

void NativeSession::on_refund(uint64_t id, size_t frame_bytes,
                              const wire::RefundRequest& refund) noexcept {
  if (!admit(id, frame_bytes)) return;
  const size_t permits_count = wire::permits_count(refund.permits);
  spend(permits_count * work::entry);
  for (size_t i = 0; i < permits_count; ++i) {
    const wire::PermitClaim permit = wire::claim_of(wire::nth_permit(refund.permits, i));
    if (permit.shard < context_.options.shards) {
      context_.backend.refund(permit.claim, permit.shard);
    }
  }
  const auto count = static_cast<uint32_t>(refund.key_sizes.size());
  const auto entries = context_.turn.add(request_of(id, frame_bytes, releases), count);
  connection_.reserve_output(release_answer_bytes_max(count));
  route::fill_entries(entries, refund.keys.data(), refund.key_sizes);
  const std::optional<int64_t> time_ms = not_after_ms(refund.target);
  for (size_t i = 0; i < entries.size(); ++i) {
    api::Entry& entry = entries[i];
    if (!refund.costs.empty()) entry.cost = refund.costs[i];
    entry.op = time_ms ? api::Op::refund : api::Op::look;  // a look changes nothing
    if (time_ms) entry.set_not_after_ms(*time_ms);
  }
  context_.backend.send_last();
}

}  // namespace sluice::session
