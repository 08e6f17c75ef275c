// Quota calls of a Lane: parcels leave in ForwardQuota frames, and their answers are kept.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "peer/lane.hpp"

namespace sluice::peer {

// From now on, bindings with this sender live as long as it has a connection.
void Lane::announce_sender() noexcept {
  write(wire::encode_forward_quota(next_id_++, context_.sender, {}));
}

void Lane::send(QuotaParcel& parcel) noexcept {
  ASSERT(takes_parcels());
  owe();
  parcels_.add(parcel);
  context_.mark_dirty(*this);
}

void Lane::send_parcels() noexcept {
  while (parcels_.next() != nullptr && state_ == State::open && !is_leaving_) {
    const QuotaParcel& parcel = *parcels_.next();
    const uint64_t id = next_id_;
    const wire::FrameWords frame = wire::encode_forward_quota(id, context_.sender, parcel.batch);
    const size_t bytes = std::span(frame).size_bytes();
    // What the owner keeps until it has a verdict must leave room for that.
    const bool has_room =
        parcel.goes_first() ? has_frame_room(bytes) : has_room_beside_verdicts(bytes);
    if (!has_room || connection_->output_over_high()) return;
    ++next_id_;
    write(frame);
    if (state_ == State::lost) return;
    parcels_.note_sent(id, bytes);
    sent_bytes_ += bytes;
  }
}

void Lane::on_outcomes(uint64_t id, const wire::QuotaOutcomesFrame& frame) noexcept {
  std::optional<wire::QuotaOutcomes> outcomes = wire::read_outcomes(frame);
  if (!outcomes) return lose("its frames are malformed");
  if (outcomes->entries.empty()) {
    on_parcel_answered(id, *outcomes);
  } else {
    on_waited(id, *outcomes);
  }
}

void Lane::on_parcel_answered(uint64_t id, wire::QuotaOutcomes& outcomes) noexcept {
  const LaneParcels::Answered answered =
      parcels_.take_answered(id, context_.now_ms, context_.parcels_done);
  if (!answered.was_asked) return lose("it answers what nobody asked");
  sent_bytes_ -= answered.bytes;
  context_.mark_dirty(*this);  // the next frame may leave
  if (answered.parcel == nullptr) return return_late(id, answered.ops, outcomes);
  const api::QuotaBatch& asked = answered.parcel->batch;
  const bool has_parts = outcomes.parts.size() == (asked.visit.is_set() ? asked.calls.size() : 0);
  if (!has_parts || !wire::are_answers_to(outcomes, asked.calls)) {
    context_.parcels_done.push_back(answered.parcel);
    return lose("it answers what nobody asked");
  }
  if (answered.parcel->batch.visit.is_set()) {
    keep_parts(*answered.parcel, outcomes);
  } else {
    keep_answers(id, *answered.parcel, outcomes);
  }
  answered.parcel->is_answered = true;
  context_.parcels_done.push_back(answered.parcel);
}

void Lane::keep_parts(QuotaParcel& parcel, wire::QuotaOutcomes& outcomes) noexcept {
  api::QuotaBatch& batch = parcel.batch;
  batch.answers = std::move(outcomes.answers);
  batch.spread = std::move(outcomes.parts);
  batch.part_reports = std::move(outcomes.reports);
  batch.visit.is_known = outcomes.knows_round;
  batch.visit.clock_ns = outcomes.clock_ns;
}

// To a client of this node, `draining` would mean this node.
void Lane::keep_answers(uint64_t id, QuotaParcel& parcel, wire::QuotaOutcomes& outcomes) noexcept {
  api::QuotaBatch& batch = parcel.batch;
  for (uint32_t index = 0; index < batch.calls.size(); ++index) {
    const api::QuotaCall& call = batch.calls[index];
    api::QuotaAnswer& answer = outcomes.answers[index];
    if (answer.code == api::QuotaCode::draining) answer = context_.policy.answer(call.op);
    if (answer.code != api::QuotaCode::queued) continue;
    RemoteWaiter* const waiter =
        waiters_.keep({.frame_id = id, .entry = index}, call.ticket, RemoteWaiter::Of::quota_call);
    if (waiter == nullptr) {
      answer = context_.policy.answer(call.op);
      write_withdraw(id, std::span(&index, 1));
      continue;
    }
    if (!batch.wait_answers.empty()) waiter->answer = batch.wait_answers[index];
    answer.waiter = waiter->index;
  }
  batch.answers = std::move(outcomes.answers);
  batch.limits = std::move(outcomes.limits);
  batch.rows = std::move(outcomes.rows);
  batch.holders = std::move(outcomes.holders);
  batch.quotas = std::move(outcomes.quotas);
  batch.answer_text = std::move(outcomes.text);
}

// Nobody receives these answers.
void Lane::return_late(uint64_t id, std::span<const api::QuotaOp> ops,
                       const wire::QuotaOutcomes& outcomes) noexcept {
  if (ops.size() != outcomes.answers.size()) return lose("it answers what nobody asked");
  if (!outcomes.parts.empty()) return;  // NodeVisits refunds what the node may have held
  std::vector<uint32_t> queued;
  for (uint32_t index = 0; index < outcomes.answers.size(); ++index) {
    const api::QuotaAnswer& answer = outcomes.answers[index];
    if (answer.code == api::QuotaCode::queued) queued.push_back(index);
    const bool is_made = ops[index] == api::QuotaOp::reserve && answer.reservation != 0;
    if (is_made) context_.unclaimed.push_back(answer.reservation);
  }
  if (!queued.empty()) write_withdraw(id, queued);
}

void Lane::on_waited(uint64_t id, const wire::QuotaOutcomes& outcomes) noexcept {
  for (size_t index = 0; index < outcomes.entries.size(); ++index) {
    const api::QuotaAnswer& answer = outcomes.answers[index];
    const RemotePlace place{.frame_id = id, .entry = outcomes.entries[index]};
    const bool has_waited = waiters_.end_call(place, answer, outcomes.limits);
    if (!has_waited && answer.reservation != 0) context_.unclaimed.push_back(answer.reservation);
  }
}

}  // namespace sluice::peer
