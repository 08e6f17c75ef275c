// What waits: kept when it is queued, written when it is granted, dropped with the connection.
#include <utility>

#include "base/assert.hpp"
#include "session/native_session.hpp"

namespace sluice::session {

void NativeSession::keep_waiting(const route::Request& request, const Verdicts& verdicts) noexcept {
  WaitingFrame* frame = nullptr;
  for (size_t i = 0; i < verdicts.entries.size(); ++i) {
    const api::Ticket ticket = verdicts.entries[i].ticket;
    if (ticket == api::no_ticket) continue;
    if (verdicts.verdicts[i] != api::Verdict::queued) {
      context_.waits.free(ticket);
      tickets_.dropped_undecided(WaitsFor::permits);
      continue;
    }
    if (frame == nullptr) {
      frame = context_.waits.open_frame(request.id, request.detail_bits);
      ASSERT(frame != nullptr);
      frame->forwards = request.kind == forwards;
      frames_.insert(*frame);
    }
    WaitingEntry& entry = context_.waits[ticket];
    entry.frame = frame;
    join(context_, tickets_, entry);
    entry.detail.request_id = verdicts.details[i].request_id;
    frame->waiting.push_back(entry);
  }
}

// The connection ended between the request and the decision, so no client waits.
void NativeSession::abandon_waiting(const Verdicts& verdicts) noexcept {
  for (size_t i = 0; i < verdicts.entries.size(); ++i) {
    free_or_abandon(context_, tickets_, WaitsFor::permits, verdicts.entries[i].ticket,
                    verdicts.verdicts[i] == api::Verdict::queued);
  }
}

void NativeSession::on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept {
  const uint64_t request_id = entry.detail.request_id;
  entry.verdict = grant.verdict;
  entry.code = grant.code;
  entry.detail = grant.detail;
  entry.detail.request_id = request_id;
  entry.reservation = grant.refund_claim.reservation;
  WaitingFrame& frame = *entry.frame;
  const bool first = frame.granted.empty();
  frame.waiting.erase(frame.waiting.iterator_to(entry));
  frame.granted.push_back(entry);
  if (first) granted_frames_.push_back(frame);
  mark_dirty();
}

void NativeSession::write_outcomes() noexcept {
  while (!granted_frames_.empty() && !connection_.output_over_high()) {
    write_outcomes(granted_frames_.front());
  }
  if (!is_topology_due_ || connection_.finishing() || connection_.output_over_high()) return;
  is_topology_due_ = false;
  write_topology(0);
}

// Writes one frame of outcomes, with as many entries as fit.
void NativeSession::write_outcomes(WaitingFrame& frame) noexcept {
  if (frame.reserves && frame.forwards) {
    write_forwarded_outcomes(frame);
  } else {
    write_granted(frame);
  }
  if (!frame.granted.empty()) return;
  granted_frames_.erase(granted_frames_.iterator_to(frame));
  if (frame.waiting.empty()) close_frame(frame);
}

void NativeSession::write_granted(WaitingFrame& frame) noexcept {
  Scratch& scratch = context_.scratch;
  scratch.indexes.clear();
  scratch.verdicts.clear();
  scratch.details.clear();
  scratch.permits.clear();
  scratch.codes.clear();
  scratch.reservations.clear();
  scratch.retry_after_ms.clear();
  const size_t most = frame.forwards ? limits::forward_outcomes_max : limits::frame_entries_max;
  while (!frame.granted.empty() && scratch.indexes.size() < most) {
    WaitingEntry& entry = frame.granted.front();
    scratch.indexes.push_back(entry.entry_index);
    if (frame.reserves) {
      scratch.codes.push_back(entry.code);
      scratch.reservations.push_back(entry.reservation);
      scratch.retry_after_ms.push_back(entry.detail.retry_after_ms);
    } else {
      scratch.verdicts.push_back(entry.verdict);
      scratch.details.push_back(entry.detail);
      if (frame.forwards && entry.verdict == api::Verdict::approved) {
        scratch.permits.push_back(wire::permit_of(entry.notice.refund_claim, entry.owner));
      }
    }
    frame.granted.pop_front();
    tickets_.dropped(entry.waits_for);
    context_.waits.free(entry.ticket);
  }
  const auto count = static_cast<uint32_t>(scratch.indexes.size());
  const auto permits_count = static_cast<uint32_t>(scratch.permits.size());
  write(wire::granted_bytes_max(count, frame.detail_bits, permits_count), [&](auto out) {
    if (frame.reserves) {
      return wire::encode_granted(frame.id,
                                  {.entries = scratch.indexes,
                                   .codes = scratch.codes,
                                   .reservations = scratch.reservations,
                                   .retry_after_ms = scratch.retry_after_ms},
                                  out);
    }
    return wire::encode_granted(frame.id, scratch.indexes, scratch.verdicts, scratch.details,
                                frame.detail_bits, out, scratch.permits);
  });
  on_reply_written(scratch.reservations);
}

void NativeSession::close_frame(WaitingFrame& frame) noexcept {
  frames_.erase(frames_.iterator_to(frame));
  context_.waits.close_frame(frame);
}

void NativeSession::drop_entries(WaitingEntries& entries) noexcept {
  while (!entries.empty()) {
    WaitingEntry& entry = entries.front();
    entries.pop_front();
    tickets_.dropped(entry.waits_for);
    context_.backend.abandon(entry);
  }
}

void NativeSession::drop_waiting() noexcept {
  granted_frames_.clear();
  while (!frames_.empty()) {
    WaitingFrame& frame = *frames_.begin();
    drop_entries(frame.waiting);
    drop_entries(frame.granted);
    close_frame(frame);
  }
  if (binding_ != 0 && !std::exchange(binding_ended_, true)) context_.backend.end_binding(binding_);
  leave_sender();
}

}  // namespace sluice::session
