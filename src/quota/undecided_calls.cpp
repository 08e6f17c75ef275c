#include "quota/undecided_calls.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;

bool UndecidedCalls::leave(const AskedCall& call) {
  leave(call.batch, call.index, call.request.named(), call.request.amounts);
  return true;
}

void UndecidedCalls::leave(QuotaBatch& batch, size_t index, std::span<const SubjectIndex> subjects,
                           const api::Amounts& amounts) {
  batch.awaits_verdict = true;
  batch.undecided.push_back(static_cast<uint32_t>(index));
  claims_.add(batch, index, subjects, amounts);
}

bool UndecidedCalls::is_behind_own(const AskedCall& call) {
  return claims_.has_earlier_of_asker(call.batch, call.index, call.request.named()) && leave(call);
}

bool UndecidedCalls::is_behind_own(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) {
  const QuotaCall& call = batch.calls[index];
  std::array<SubjectIndex, limits::call_subjects_max> found{};
  std::span<const SubjectIndex> subjects;
  if (api::names_reservation(call.op)) {
    const Reservation* const reservation = std::as_const(reservations_).find(call.reservation);
    if (reservation != nullptr) subjects = reservation->named();
  } else {
    const size_t count = std::min<size_t>(call.subjects_count, found.size());
    for (size_t place = 0; place < count; ++place) found[place] = subjects_.find(hashes[place]);
    subjects = std::span(found).first(count);
  }
  if (!claims_.has_earlier_of_asker(batch, index, subjects)) return false;
  leave(batch, index, subjects, {.requests = 0});
  return true;
}

bool UndecidedCalls::awaits_first(const AskedCall& call) {
  const auto found = repeats_.find(call.request);
  return found && repeats_.is_undecided(*found) && leave(call);
}

bool UndecidedCalls::is_behind_claims(const AskedCall& call) {
  const limiter::Shares shares = call.request.shares();
  const limiter::Moment& now = clock_.moment();
  const bool leaves_place = call.batch.calls[call.index].op == api::QuotaOp::check ||
                            !call.request.needs_place() ||
                            claims_.leave_place(call.batch, call.index);
  if (leaves_place && claims_.leave_room(call.batch, call.index, call.limited, shares, now)) {
    return false;
  }
  return subjects_fit(without_holds(call.limited), shares, now) && leave(call);
}

bool UndecidedCalls::awaits_holds(const AskedCall& call, bool has_waiters_ahead) {
  if (has_waiters_ahead && !queues_.wait_for_holds(call.limited)) return false;
  const AwaitedVerdict awaited =
      awaited_verdict(call.limited, call.request.shares(), call.batch, clock_.moment());
  return awaited != AwaitedVerdict::none && leave(call);
}

bool UndecidedCalls::awaits_place(const AskedCall& call) {
  return subjects_.holds().has_any() && leave(call);
}

const std::vector<uint32_t>& UndecidedCalls::take_list(QuotaBatch& batch, api::ShardId shard) {
  list_.clear();
  list_.swap(batch.undecided);
  claims_taken_ = list_.size();
  if (!std::exchange(batch.awaits_verdict, false)) {
    for (uint32_t index = 0; index < batch.calls.size(); ++index) {
      if (batch.calls[index].shard == shard) list_.push_back(index);
    }
    return list_;
  }
  for (const uint32_t index : list_) claims_.remove(batch, index);
  return list_;
}

void UndecidedCalls::end_list(QuotaBatch& batch) const noexcept {
  batch.ended_claims |= batch.undecided.size() < claims_taken_;
}

}  // namespace sluice::quota
