// Quota calls that another node forwards: ForwardQuota, QuotaOutcomes.
// Flow:   the frame's calls become a batch that is decided on this node -> QuotaOutcomes, with all
//         that the batch has; calls that wait are kept like those of a Reserve, and have their
//         outcomes in further frames of QuotaOutcomes.
// Shape:  the batch is decided as one of this node's clients would be: the connection's end cancels
//         what was not sent, and takes its waiters out of their queues. What comes behind it does
//         not wait for it: the other node keeps the order of its clients, and a verdict that frees
//         something may come behind a call that waits for it.
#include <algorithm>
#include <boost/range/adaptor/transformed.hpp>
#include <cstring>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "base/smaller_limit.hpp"
#include "session/batch_bit.hpp"
#include "session/native_session.hpp"
#include "wire/forward_quota.hpp"
#include "wire/quota_outcomes.hpp"

namespace sluice::session {
namespace {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaOp;

// In one frame of outcomes of calls that have waited.
constexpr size_t outcomes_limits_max = 1'024;

bool has_no_room(const QuotaCall& call) noexcept {
  constexpr uint8_t no_room =
      api::quota_flag::waiters_full | api::quota_flag::connection_waiters_full;
  return (call.flags & no_room) != 0;
}

}  // namespace

void NativeSession::on_forward_quota(uint64_t id, size_t frame_bytes,
                                     const wire::ForwardQuotaRequest& request) noexcept {
  if (!is_node()) return write_error(id, ErrorCode::secret_expected);
  QuotaBatch sent;
  std::vector<bool> wants_outcome;
  if (!wire::read_calls(request, sent, wants_outcome)) {
    return write_error(id, ErrorCode::malformed);
  }
  join_sender(request.sender);
  if (sent.calls.empty()) {
    if (id_in_use(id)) return write_error(id, ErrorCode::id_in_use);
    return write(wire::small_answer_bytes_max,
                 [&](auto out) { return wire::encode_done(id, out); });
  }
  if (!admit(id, frame_bytes)) return;
  sent.visit.sender = sender_;
  QuotaBatch& batch = context_.backend.take_node_batch();
  batch = std::move(sent);
  batch.stays_here = true;
  if (!batch.visit.is_set()) {
    count_misrouted(batch);
    note_bindings(batch);
    take_forwarded_tickets(batch, wants_outcome);
  }
  batch.frame_bytes = static_cast<uint32_t>(frame_bytes);
  batch.kind = batch_bit::forwarded;
  connection_.reserve_output(wire::outcomes_bytes_max(batch));
  context_.backend.ask(*this, id, batch);
}

void NativeSession::count_misrouted(const QuotaBatch& batch) noexcept {
  for (const QuotaCall& call : batch.calls) {
    if (call.subjects_count == 0) continue;
    context_.misrouted.count_subject(batch.subjects[call.first_subject]);
  }
}

// The worker of the other node keeps its sender for as long as it lives.
void NativeSession::join_sender(uint64_t sender) noexcept {
  if (sender_ == sender) return;
  leave_sender();
  sender_ = sender;
  context_.node_bindings.join(sender_);
}

void NativeSession::leave_sender() noexcept {
  if (sender_ == 0) return;
  context_.node_bindings.leave(std::exchange(sender_, 0), context_.now_ms());
}

void NativeSession::note_bindings(const QuotaBatch& batch) noexcept {
  for (const QuotaCall& call : batch.calls) {
    const bool binds = call.binding != 0 && call.op != QuotaOp::end_binding;
    if (binds) context_.node_bindings.use(sender_, call.binding);
  }
}

void NativeSession::take_forwarded_tickets(QuotaBatch& batch,
                                           const std::vector<bool>& wants_outcome) noexcept {
  const uint64_t waiting = waiting_count(context_, WaitsFor::quota);
  for (uint32_t entry = 0; entry < batch.calls.size(); ++entry) {
    QuotaCall& call = batch.calls[entry];
    if (!api::may_wait(call)) continue;
    call.wait_ms_max = base::smaller_limit(call.wait_ms_max, context_.options.wait_ms_max);
    if (has_no_room(call)) continue;
    call.flags |=
        take_ticket(context_, tickets_, place_of(entry), WaitsFor::quota, waiting, call.ticket);
    if (call.ticket == api::no_ticket || !wants_outcome[entry]) continue;
    auto& answer = context_.waits[call.ticket].answer;
    answer = std::make_unique<api::WaitAnswer>();
    answer->limits.reserve(call.subjects_count * size_t{limits::quota_limits_max});
    batch.wait_answers.resize(batch.calls.size());
    batch.wait_answers[entry] = answer.get();
  }
}

void NativeSession::on_forwarded(uint64_t id, const QuotaBatch& batch) noexcept {
  connection_.release_output(wire::outcomes_bytes_max(batch));
  write_words(wire::encode_outcomes(id, wire::outcomes_of(batch)));
  if (batch.visit.is_set()) return;
  const auto is_made = [](const QuotaCall& call) { return call.op == QuotaOp::reserve; };
  std::vector<uint64_t>& reservations = context_.scratch.reservations;
  reservations.clear();
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    if (is_made(batch.calls[i])) reservations.push_back(batch.answers[i].reservation);
  }
  on_reply_written(reservations);
  keep_waiting(id, batch);
}

void NativeSession::write_words(const wire::FrameWords& frame) noexcept {
  const auto bytes = std::as_bytes(std::span(frame));
  write(bytes.size(), [&](auto out) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return bytes.size();
  });
}

// As many outcomes of calls that have waited as fit into a frame.
void NativeSession::write_forwarded_outcomes(WaitingFrame& frame) noexcept {
  wire::QuotaOutcomes outcomes;
  const auto has_room = [&] {
    return outcomes.entries.size() < wire::forwarded_calls_max &&
           outcomes.limits.size() < outcomes_limits_max;
  };
  std::vector<uint64_t>& reservations = context_.scratch.reservations;
  reservations.clear();
  while (!frame.granted.empty() && has_room()) {
    WaitingEntry& entry = frame.granted.front();
    api::QuotaAnswer answer{.code = entry.code,
                            .reservation = entry.reservation,
                            .retry_after_ms = entry.detail.retry_after_ms};
    if (entry.answer != nullptr) {
      answer = entry.answer->answer;
      answer.first_limit = static_cast<uint32_t>(outcomes.limits.size());
      outcomes.limits.insert(outcomes.limits.end(), entry.answer->limits.begin(),
                             entry.answer->limits.end());
    }
    outcomes.entries.push_back(entry.entry_index);
    outcomes.answers.push_back(answer);
    reservations.push_back(entry.reservation);
    frame.granted.pop_front();
    tickets_.dropped(entry.waits_for);
    context_.waits.free(entry.ticket);
  }
  write_words(wire::encode_outcomes(frame.id, {.entries = outcomes.entries,
                                               .answers = outcomes.answers,
                                               .limits = outcomes.limits,
                                               .rows = {},
                                               .holders = {},
                                               .quotas = {},
                                               .text = {},
                                               .visit = nullptr}));
  on_reply_written(reservations);
}

}  // namespace sluice::session
