// Quotas: Reserve, Check, Settle, Cancel, Extend, Record, Consume, Usage, QuotaChange, Reset.
// Flow:   a frame becomes the calls of a batch, which the backend has decided -> on_quota(), at
//         once or later -> QuotaAnswers or UsageReply. Calls that wait are kept, withdrawn and
//         granted like the entries of an Acquire.
// Shape:  frames of entries are outstanding until they are answered. Usage, QuotaChange and Reset
//         are queries: the session reads nothing behind one before its answer.
#include <algorithm>
#include <boost/range/adaptor/transformed.hpp>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/smaller_limit.hpp"
#include "session/batch_bit.hpp"
#include "session/native_session.hpp"

namespace sluice::session {
namespace {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;

wire::QuotaColumns columns_of(uint8_t kind) noexcept {
  return {.reservations = (kind & batch_bit::reservations) != 0,
          .retries = (kind & batch_bit::retries) != 0,
          .limits = (kind & batch_bit::limits) != 0};
}

// The bound of the answer's size; a batch reports no more limits than all its subjects can have.
size_t answers_bytes_max(const QuotaBatch& batch) noexcept {
  const size_t limits_max =
      std::min<size_t>(batch.subjects.size() * limits::quota_limits_max, limits::quota_reports_max);
  return wire::quota_answers_bytes_max(batch.calls.size(), columns_of(batch.kind), limits_max);
}

uint8_t call_flags(uint8_t frame_flags) noexcept {
  const auto flag = [&](uint8_t bit, uint8_t of_call) {
    return (frame_flags & bit) != 0 ? of_call : uint8_t{0};
  };
  namespace bit = wire::quota_bit;
  return static_cast<uint8_t>(flag(bit::may_wait, api::quota_flag::may_wait) |
                              flag(bit::wants_limits, api::quota_flag::wants_limits) |
                              flag(bit::wants_violated, api::quota_flag::wants_violated) |
                              flag(bit::keep_requests, api::quota_flag::keep_requests));
}

bool wants_limits(uint8_t frame_flags) noexcept {
  return (frame_flags & (wire::quota_bit::wants_limits | wire::quota_bit::wants_violated)) != 0;
}

uint8_t kind_with(uint8_t bits, uint8_t frame_flags) noexcept {
  return wants_limits(frame_flags) ? bits | batch_bit::limits : bits;
}

void add_names(QuotaBatch& batch, std::string_view names, wire::Column<uint16_t> sizes) noexcept {
  const char* name = names.data();
  for (const uint16_t size : sizes) {
    batch.subjects.emplace_back(name, size);
    name += size;
  }
}

// A call for each entry, with its subjects.
void add_calls(QuotaBatch& batch, QuotaOp op, const wire::EntrySubjects& entries) noexcept {
  add_names(batch, entries.subjects, entries.subject_sizes);
  uint32_t first = 0;
  for (size_t entry = 0; entry < entries.entries_count(); ++entry) {
    const uint8_t count = entries.subject_counts.empty() ? 1 : entries.subject_counts[entry];
    batch.calls.push_back({.op = op, .subjects_count = count, .first_subject = first});
    first += count;
  }
}

void add_calls(QuotaBatch& batch, QuotaOp op, wire::Column<uint64_t> reservations) noexcept {
  for (const uint64_t reservation : reservations) {
    batch.calls.push_back({.op = op, .reservation = reservation});
  }
}

void add_call(QuotaBatch& batch, QuotaOp op, std::string_view subject) noexcept {
  batch.subjects.push_back(subject);
  batch.calls.push_back({.op = op, .subjects_count = 1});
}

template <typename T>
void fill_given(QuotaBatch& batch, wire::Column<T> column, T unset, uint8_t bit,
                uint64_t api::Amounts::*member) noexcept {
  for (size_t entry = 0; entry < column.size(); ++entry) {
    if (column[entry] == unset) continue;
    QuotaCall& call = batch.calls[entry];
    call.amounts.*member = column[entry];
    call.given_bits |= bit;
  }
}

void fill_amounts(QuotaBatch& batch, const wire::EntryAmounts& amounts) noexcept {
  using api::Amounts;
  namespace given = api::given;
  fill_given(batch, amounts.requests, api::keep, given::requests, &Amounts::requests);
  fill_given(batch, amounts.input_tokens, wire::unset, given::input_tokens, &Amounts::input_tokens);
  fill_given(batch, amounts.output_tokens, wire::unset, given::output_tokens,
             &Amounts::output_tokens);
  fill_given(batch, amounts.costs, wire::unset, given::cost, &Amounts::cost);
  for (size_t entry = 0; entry < amounts.cached_input_tokens.size(); ++entry) {
    const uint64_t cached = amounts.cached_input_tokens[entry];
    if (cached != wire::unset) batch.calls[entry].cached_input_tokens = cached;
  }
}

void fill_ids(QuotaBatch& batch, const wire::EntryIds& request) noexcept {
  const char* client_id = request.ids.data();
  for (size_t entry = 0; entry < request.id_sizes.size(); ++entry) {
    batch.calls[entry].client_id = {client_id, request.id_sizes[entry]};
    client_id += request.id_sizes[entry];
  }
}

// Of entries that may wait: for how long.
template <typename Request>
void fill_wait_limit(QuotaBatch& batch, const Request& request, uint32_t wait_ms_max) noexcept {
  if (!request.may_wait()) return;
  const uint32_t wait_ms = base::smaller_limit(request.wait_limit_ms, wait_ms_max);
  for (QuotaCall& call : batch.calls) call.wait_ms_max = wait_ms;
}

}  // namespace

void NativeSession::on_reserve(uint64_t id, size_t frame_bytes, QuotaOp op,
                               const wire::ReserveRequest& request) noexcept {
  const bool reserves = op == QuotaOp::reserve;
  if (!admit_batch(id, frame_bytes, request.entries_count())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  const bool connection_bound =
      reserves && (request.flags & wire::quota_bit::connection_bound) != 0;
  const bool waits = reserves && request.may_wait();
  add_calls(batch, op, request);
  fill_amounts(batch, request);
  fill_ids(batch, request);
  if (connection_bound && binding_ == 0) binding_ = context_.new_binding();
  const uint8_t flags = call_flags(request.flags);
  for (QuotaCall& call : batch.calls) {
    call.flags = flags;
    call.lifetime_ms = request.lifetime_ms;
    call.owner = request.owner;
    call.binding = connection_bound ? binding_ : 0;
  }
  fill_wait_limit(batch, request, context_.options.wait_ms_max);
  if (waits) take_tickets(batch);
  uint8_t bits = batch_bit::retries;
  if (reserves) bits |= batch_bit::reservations;
  if (waits) bits |= batch_bit::tickets;
  if (connection_bound) bits |= batch_bit::connection_bound;
  ask(id, frame_bytes, batch, kind_with(bits, request.flags));
}

void NativeSession::on_settle(uint64_t id, size_t frame_bytes,
                              const wire::SettleRequest& request) noexcept {
  if (!admit_batch(id, frame_bytes, request.reservations.size())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  add_calls(batch, QuotaOp::settle, request.reservations);
  fill_amounts(batch, request);
  ask(id, frame_bytes, batch, 0);
}

void NativeSession::on_cancel(uint64_t id, size_t frame_bytes,
                              const wire::CancelRequest& request) noexcept {
  if (!admit_batch(id, frame_bytes, request.reservations.size())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  add_calls(batch, QuotaOp::cancel, request.reservations);
  const uint8_t flags = call_flags(request.flags);
  for (QuotaCall& call : batch.calls) call.flags = flags;
  ask(id, frame_bytes, batch, 0);
}

void NativeSession::on_extend(uint64_t id, size_t frame_bytes,
                              const wire::ExtendRequest& request) noexcept {
  if (!admit_batch(id, frame_bytes, request.reservations.size())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  add_calls(batch, QuotaOp::extend, request.reservations);
  for (QuotaCall& call : batch.calls) call.lifetime_ms = request.lifetime_ms;
  ask(id, frame_bytes, batch, 0);
}

void NativeSession::on_record(uint64_t id, size_t frame_bytes,
                              const wire::RecordRequest& request) noexcept {
  if (!admit_batch(id, frame_bytes, request.entries_count())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  add_calls(batch, QuotaOp::record, request);
  fill_amounts(batch, request);
  fill_ids(batch, request);
  const uint8_t flags = call_flags(request.flags);
  for (QuotaCall& call : batch.calls) call.flags = flags;
  ask(id, frame_bytes, batch, kind_with(batch_bit::retries, request.flags));
}

void NativeSession::on_consume(uint64_t id, size_t frame_bytes,
                               const wire::ConsumeRequest& request) noexcept {
  if (!admit_batch(id, frame_bytes, request.entries_count())) return;
  QuotaBatch& batch = context_.backend.take_batch();
  add_calls(batch, QuotaOp::consume, request);
  fill_amounts(batch, request);
  fill_ids(batch, request);
  const uint8_t flags = call_flags(request.flags);
  for (QuotaCall& call : batch.calls) call.flags = flags;
  fill_wait_limit(batch, request, context_.options.wait_ms_max);
  uint8_t bits = batch_bit::retries;
  if (request.may_wait()) {
    take_tickets(batch);
    bits |= batch_bit::tickets;
  }
  ask(id, frame_bytes, batch, kind_with(bits, request.flags));
}

void NativeSession::on_usage(uint64_t id, const wire::UsageRequest& request) noexcept {
  QuotaBatch& batch = context_.backend.take_batch();
  if (request.subject_sizes.empty()) {
    // As many subjects as fit into one answer, however long their names are.
    const auto fitting =
        static_cast<uint32_t>(wire::usage_names_bytes_max / context_.options.key_bytes_max);
    const uint32_t limit = base::smaller_limit(request.limit, limits::subjects_page_max);
    batch.calls.push_back(
        {.op = QuotaOp::page, .limit = std::min(limit, fitting), .cursor = request.cursor});
  } else {
    add_calls(batch, QuotaOp::usage,
              {.subjects = request.subjects,
               .subject_sizes = request.subject_sizes,
               .subject_counts = {}});
  }
  query(id, batch, batch_bit::usage);
}

void NativeSession::on_quota_change(uint64_t id, const wire::QuotaChangeRequest& request) noexcept {
  tl::expected<api::Quota, std::string> quota;
  if (!request.remove) quota = wire::quota_of(request);
  if (!quota) {
    return write(wire::invalid_quota_bytes_max(quota.error()),
                 [&](auto out) { return wire::encode_invalid_quota(id, quota.error(), out); });
  }
  QuotaBatch& batch = context_.backend.take_batch();
  add_call(batch, request.remove ? QuotaOp::remove : QuotaOp::put, request.subject);
  if (!request.remove) batch.new_quotas.push_back(*std::move(quota));
  query(id, batch, 0);
}

void NativeSession::on_reset(uint64_t id, const wire::ResetRequest& request) noexcept {
  QuotaBatch& batch = context_.backend.take_batch();
  if (request.subject.empty()) {
    batch.calls.push_back({.op = QuotaOp::reset_all});
  } else {
    add_call(batch, QuotaOp::reset, request.subject);
  }
  query(id, batch, 0);
}

// Whether a frame of entries may become a batch. A frame without entries is answered at once.
bool NativeSession::admit_batch(uint64_t id, size_t frame_bytes, size_t entries_count) noexcept {
  if (entries_count > 0) return admit(id, frame_bytes);
  if (id_in_use(id)) {
    write_error(id, ErrorCode::id_in_use);
  } else {
    write_quota_answers(id, {}, {}, 0, wire::quota_answers_bytes_max(0, {}, 0));
  }
  return false;
}

void NativeSession::take_tickets(QuotaBatch& batch) noexcept {
  const uint64_t waiting = waiting_count(context_, WaitsFor::quota);
  for (uint32_t entry = 0; entry < batch.calls.size(); ++entry) {
    QuotaCall& call = batch.calls[entry];
    call.flags |=
        take_ticket(context_, tickets_, place_of(entry), WaitsFor::quota, waiting, call.ticket);
  }
}

void NativeSession::ask(uint64_t id, size_t frame_bytes, QuotaBatch& batch, uint8_t kind) noexcept {
  batch.frame_bytes = static_cast<uint32_t>(frame_bytes);
  batch.kind = kind;
  connection_.reserve_output(answers_bytes_max(batch));
  // A batch that goes from shard to shard has no order with frames behind it, so those wait.
  if (context_.backend.spans_shards(batch)) hold(held_by_decision);
  context_.backend.ask(*this, id, batch);
}

void NativeSession::query(uint64_t id, QuotaBatch& batch, uint8_t kind) noexcept {
  batch.kind = kind | batch_bit::query;
  hold(held_by_query);
  context_.backend.ask(*this, id, batch);
}

void NativeSession::on_quota(uint64_t id, const QuotaBatch& batch) noexcept {
  spend(work::of(batch));
  if ((batch.kind & batch_bit::query) != 0) return on_query_done(id, batch);
  --outstanding_frames_;
  outstanding_bytes_ -= batch.frame_bytes;
  if (outstanding_frames_ == 0) release_hold(held_by_decision);
  if (connection_.closing() || connection_.finishing()) {
    abandon_waiting(batch);
    session::cancel_undelivered(context_.backend, batch);
    // A shard may have ended the binding before it made this reservation.
    if ((batch.kind & batch_bit::connection_bound) != 0) context_.backend.end_binding(binding_);
    return;
  }
  if ((batch.kind & batch_bit::forwarded) != 0) return on_forwarded(id, batch);
  const size_t bytes_max = answers_bytes_max(batch);
  connection_.release_output(bytes_max);
  write_quota_answers(id, batch.answers, batch.limits, batch.kind, bytes_max);
  if ((batch.kind & batch_bit::reservations) != 0) {
    const auto reservation_of = [](const api::QuotaAnswer& answer) { return answer.reservation; };
    on_reply_written(batch.answers | boost::adaptors::transformed(reservation_of));
  }
  if ((batch.kind & batch_bit::tickets) != 0) keep_waiting(id, batch);
  withdraw_pending(id);
}

void NativeSession::on_query_done(uint64_t id, const QuotaBatch& batch) noexcept {
  release_hold(held_by_query);
  if (connection_.finishing()) return;
  if ((batch.kind & batch_bit::usage) != 0) {
    write(wire::usage_reply_bytes_max(batch),
          [&](auto out) { return wire::encode_usage_reply(id, batch, out); });
  } else {
    write_quota_answers(id, batch.answers, {}, batch.kind, answers_bytes_max(batch));
  }
}

void NativeSession::write_quota_answers(uint64_t id, std::span<const api::QuotaAnswer> answers,
                                        std::span<const api::LimitReport> limits, uint8_t kind,
                                        size_t bytes_max) noexcept {
  write(bytes_max, [&](auto out) {
    return wire::encode_quota_answers(id, answers, limits, columns_of(kind), out);
  });
}

// Answers without asking a shard.
void NativeSession::answer_with(uint64_t id, size_t count, QuotaCode code) noexcept {
  auto& answers = context_.scratch.quota_answers;
  answers.assign(count, {.code = code});
  write_quota_answers(id, answers, {}, 0, wire::quota_answers_bytes_max(count, {}, 0));
}

void NativeSession::keep_waiting(uint64_t id, const QuotaBatch& batch) noexcept {
  WaitingFrame* frame = nullptr;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const api::Ticket ticket = batch.calls[index].ticket;
    if (ticket == api::no_ticket) continue;
    if (batch.answers[index].code != QuotaCode::queued) {
      context_.waits.free(ticket);
      tickets_.dropped_undecided(WaitsFor::quota);
      continue;
    }
    if (frame == nullptr) {
      frame = context_.waits.open_frame(id, 0);
      ASSERT(frame != nullptr);
      frame->reserves = true;
      frame->forwards = (batch.kind & batch_bit::forwarded) != 0;
      frames_.insert(*frame);
    }
    WaitingEntry& entry = context_.waits[ticket];
    entry.frame = frame;
    join(context_, tickets_, entry);
    frame->waiting.push_back(entry);
  }
}

// The connection ended between the frame and the decision, so no client waits.
void NativeSession::abandon_waiting(const QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    free_or_abandon(context_, tickets_, WaitsFor::quota, batch.calls[index].ticket,
                    batch.answers[index].code == QuotaCode::queued);
  }
}

}  // namespace sluice::session
