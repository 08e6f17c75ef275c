// The parts that this node has of other nodes' calls: another node asks for its share in a pass,
// and has the answer when all shards have had theirs (VisitedParts).
#include <algorithm>
#include <bit>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "server/quota_tasks.hpp"
#include "server/visit_times.hpp"

namespace sluice::server {

using api::Pass;
using api::QuotaCall;
using api::QuotaOp;

namespace {

void refuse_for_room(api::SpreadCall& part) noexcept {
  part.reservations_full = true;
  part.no_waiter_code = api::QuotaCode::waiters_full;
}

// Nothing of it is kept.
void refuse_for_home(api::SpreadCall& part) noexcept {
  refuse_for_room(part);
  part.holds.fill(api::SpreadCall::no_hold);
  part.state = api::SpreadCall::State::done;
}

uint8_t first_of(uint8_t subject_bits) noexcept {
  return static_cast<uint8_t>(std::countr_zero(subject_bits));
}

}  // namespace

// Another node asks for its share in a pass.
void QuotaTasks::start_visit(QuotaTask& task) noexcept {
  api::QuotaBatch& batch = task.batch;
  batch.own_texts();
  arrival_clock_.follow(batch.arrival.ns, context_.now);
  batch.undecided.clear();
  for (uint32_t index = 0; index < batch.calls.size(); ++index) {
    find_stops(batch, index);
    make_absolute(batch.spread[index], context_.now);
    batch.undecided.push_back(index);
  }
  batch.round_size = static_cast<uint32_t>(batch.calls.size());
  task.origin = mailboxes_.shard();
  task.goes_on = task.may_change = false;
  task.shard = 0;
  task.waits_until_ns = context_.now.monotonic_ns + visited_.verdict_ns();
  if (!mailboxes_.nodes().has_other(batch.visit.home)) {
    // There would be no way to it for what its parts report.
    for (api::SpreadCall& part : batch.spread) refuse_for_home(part);
  } else if (batch.pass == Pass::ask && !node_tasks_.has_room()) {
    for (api::SpreadCall& part : batch.spread) refuse_for_room(part);
  } else if (visited_.begin(task)) {
    return go_on(task);
  }
  finish_visit(task);
}

void QuotaTasks::find_stops(api::QuotaBatch& batch, uint32_t index) noexcept {
  const QuotaCall& call = batch.calls[index];
  api::SpreadCall& part = batch.spread[index];
  std::fill(part.waiters.begin() + 1, part.waiters.end(), api::no_waiter);
  if (part.is_try) return find_waiting_stops(batch, index);
  for (uint8_t place = 0; place < call.subjects_count; ++place) {
    const bool is_here = (batch.visit.subject_bits[index] & 1U << place) != 0;
    part.shards[place] = is_here ? mailboxes_.shard_of(batch.subjects[call.first_subject + place])
                                 : api::stop_of_node(batch.visit.home);
  }
}

// A call that waits comes without names. No shard has a part of one that is not here any more.
void QuotaTasks::find_waiting_stops(api::QuotaBatch& batch, uint32_t index) noexcept {
  api::SpreadCall& part = batch.spread[index];
  if (visited_waiters_.find(batch, index, part, context_.now)) return;
  part.shards.fill(api::stop_of_node(batch.visit.home));
  if (part.problem != api::QuotaCode::ok) return;
  part.problem = api::QuotaCode::owner_unreachable;
  part.problem_place = first_of(batch.visit.subject_bits[index]);
}

void QuotaTasks::finish_visit(QuotaTask& task) noexcept {
  api::QuotaBatch& batch = task.batch;
  if (batch.pass == Pass::apply) visited_waiters_.note_verdicts(batch, context_.now);
  if (task.asker) {
    for (api::SpreadCall& part : batch.spread) make_relative(part, context_.now);
    batch.visit.clock_ns = arrival_clock_.ns(context_.now);
    answer(task);
    for (api::SpreadCall& part : batch.spread) make_absolute(part, context_.now);
    context_.room_made = true;
  } else if (batch.pass == Pass::apply) {
    // Its time was over: the home does not ask again for calls that no later round has here.
    visited_.leave_forgotten(batch);
    batch.pass = Pass::forget;
    task.shard = 0;
    return go_on(task);
  }
  if (!visited_.keep(task, context_.now)) node_tasks_.free(task);
  deliver_grants();
}

// What another node has cancelled may still be held here. Every shard has the calls.
void QuotaTasks::refuse_held(const api::QuotaBatch& batch) noexcept {
  for (const QuotaCall& call : batch.calls) {
    const bool is_cancel =
        call.op == QuotaOp::end_part && (call.flags & api::quota_flag::cancels) != 0;
    if (!is_cancel) continue;
    QuotaTask* const task = visited_.refuse(call.reservation, context_.now);
    if (task == nullptr) continue;
    task->origin = mailboxes_.shard();
    task->goes_on = task->may_change = false;
    task->shard = 0;
    go_on(*task);
  }
}

void QuotaTasks::end_visited_waits(const api::QuotaBatch& batch) noexcept {
  for (const QuotaCall& call : batch.calls) {
    if (call.op == QuotaOp::leave_node) visited_waiters_.leave(api::arrival_that_leaves(call));
  }
}

void QuotaTasks::forget_bindings(const api::QuotaBatch& batch) noexcept {
  for (const QuotaCall& call : batch.calls) {
    if (call.op == QuotaOp::end_binding) context_.node_bindings.forget(call.binding);
  }
}

void QuotaTasks::end_overdue() noexcept {
  visited_waiters_.leave_overdue(context_.now);
  while (QuotaTask* const task = visited_.next_overdue(context_.now)) {
    task->shard = 0;
    go_on(*task);
    deliver_grants();
  }
}

}  // namespace sluice::server
