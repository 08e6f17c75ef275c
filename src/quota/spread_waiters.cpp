#include "quota/spread_waiters.hpp"

#include <utility>

#include "quota/spread_round.hpp"

namespace sluice::quota {

using api::QuotaCall;
using api::QuotaOp;

namespace {

constexpr uint8_t own_bit = 1;  // the first subject is the home's

}  // namespace

void SpreadWaiters::on_fits(Waiter& waiter) noexcept {
  if (!waiter.is_part) {
    waiter.fit_bits |= own_bit;
    return consider(waiter);
  }
  if (std::exchange(waiter.has_reported, true)) return;
  outgoing_.push_back({.op = QuotaOp::part_fits,
                       .place = waiter.first_place,
                       .shard = waiter.home,
                       .waiter = waiter.parts[0]});
}

void SpreadWaiters::on_out(Waiter& waiter) noexcept {
  if (!waiter.is_part) {
    waiter.has_part_out = true;
    return consider(waiter);
  }
  if (std::exchange(waiter.is_out, true)) return;
  outgoing_.push_back(
      {.op = QuotaOp::part_is_out, .shard = waiter.home, .waiter = waiter.parts[0]});
}

void SpreadWaiters::note_out(const QuotaCall& call) noexcept {
  if (!queues_.pool().holds(call.waiter)) return;
  Waiter& waiter = queues_[call.waiter];
  waiter.has_part_out = true;
  consider(waiter);
}

// The waiter may have left meanwhile: for another one in its place it is a hint too many.
void SpreadWaiters::note_fits(const QuotaCall& call) noexcept {
  if (!queues_.pool().holds(call.waiter)) return;
  Waiter& waiter = queues_[call.waiter];
  waiter.fit_bits |= static_cast<uint8_t>(1U << call.place);
  consider(waiter);
}

void SpreadWaiters::on_late(Waiter& waiter) noexcept {
  waiter.is_late = true;
  consider(waiter);
}

void SpreadWaiters::go_on(Waiter& waiter, uint8_t fit_bits) noexcept {
  waiter.stage = Waiter::Stage::waiting;
  waiter.fit_bits |= fit_bits;
  consider(waiter);
}

void SpreadWaiters::consider(Waiter& waiter) noexcept {
  if (waiter.stage != Waiter::Stage::waiting || !waiter.has_parts()) return;
  const bool all_fit = (waiter.part_bits & ~waiter.fit_bits) == 0;
  if (!all_fit && !waiter.is_late && !waiter.has_part_out) return;
  waiter.stage = Waiter::Stage::to_try;
  to_try_.push_back(waiter);
}

void SpreadWaiters::next_try(api::QuotaBatch& batch) noexcept {
  Waiter& waiter = to_try_.front();
  to_try_.pop_front();
  waiter.stage = Waiter::Stage::tried;
  waiter.fit_bits = 0;
  waiter.has_part_out = false;
  const Request& request = waiter.request;
  const bool shows_limits = waiter.answer != nullptr;
  batch.clear();
  batch.arrival = waiter.arrival;
  batch.calls.push_back({.op = waiter.op(),
                         .flags = shows_limits ? api::quota_flag::wants_limits : uint8_t{0},
                         .given_bits = 0xFF,
                         .subjects_count = request.subjects_count,
                         .shard = shard_,
                         .lifetime_ms = request.lifetime_ms,
                         .amounts = request.amounts,
                         .cached_input_tokens = request.cached_input_tokens,
                         .binding = request.connection,
                         .owner = queues_.owner_of(waiter.index())});
  // The parts know their subjects: names are not kept.
  batch.subjects.assign(request.subjects_count, {});
  batch.make_answers();
  batch.spread.assign(1, {});
  api::SpreadCall& spread = batch.spread.front();
  for (uint8_t place = 0; place < request.subjects_count; ++place) {
    const SubjectIndex subject = request.subjects[place];
    spread.shards[place] = is_remote(subject) ? shard_of_subject(subject) : shard_;
  }
  spread.is_try = true;
  spread.is_last_try = waiter.is_late;
  if (waiter.is_late) spread.late_tries = waiter.late_tries++;
  spread.waiters = waiter.parts;
  spread.waiters[0] = waiter.index();
  begin_rounds(batch);
}

void SpreadWaiters::leave_parts(const Waiter& waiter) noexcept {
  for (uint8_t place = 1; place < limits::call_subjects_max; ++place) {
    if ((waiter.part_bits & 1U << place) == 0) continue;
    outgoing_.push_back({.op = QuotaOp::leave_queues,
                         .shard = shard_of_subject(waiter.request.subjects[place]),
                         .waiter = waiter.parts[place]});
  }
}

}  // namespace sluice::quota
