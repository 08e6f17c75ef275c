#include "quota/joining_waiters.hpp"

#include <algorithm>

namespace sluice::quota {

using api::QuotaCode;

void JoiningWaiters::take(SpreadPart& part, api::ShardId origin) noexcept {
  api::SpreadCall& spread = part.spread;
  const QuotaCode refusal = server_.why_no_waiter(part.call, part.request);
  if (refusal != QuotaCode::none) {
    const bool outweighs = spread.no_waiter_code == QuotaCode::none ||
                           refusal == QuotaCode::waiters_full ||
                           spread.no_waiter_code == QuotaCode::connection_waiters_full;
    if (outweighs) spread.no_waiter_code = refusal;
    return;
  }
  Request request = part.request;
  if (part.is_held()) request.id = {};
  if (part.hold() == api::SpreadCall::no_hold) part.set_hold(api::SpreadCall::without_hold);
  const api::QuotaCall unnamed;  // a part has neither ticket nor owner
  const api::Arrival arrival = part.batch.arrival_of(part.index);
  const api::WaiterId index =
      queues_.take(request, {part.is_home() ? part.call : unnamed, origin, arrival});
  spread.waiters[part.place] = index;
  Waiter& waiter = queues_[index];
  waiter.is_part = !part.is_home();
  waiter.home = spread.home();
  waiter.home_shard = spread.home_shard;
  waiter.first_place = part.place;
  waiter.subjects_here = static_cast<uint8_t>(std::count(
      spread.shards.begin(), spread.shards.begin() + part.call.subjects_count, part.shard));
  for (const LimitedSubject& each : part.limited) reservations_.keep(each.index);
}

void JoiningWaiters::end(SpreadPart& part) noexcept {
  const api::WaiterId index = part.waiter();
  Waiter& waiter = queues_[index];
  for (const SubjectIndex subject : waiter.request.named()) {
    if (is_here(subject)) reservations_.unkeep(subject);
  }
  // Another node might give a number twice.
  const bool joins = part.spread.state == api::SpreadCall::State::queued &&
                     !(waiter.is_part && queues_.have_one_of(waiter.arrival, waiter.request));
  if (!joins) return queues_.leave(index);
  set_parts(part, waiter);
  queues_.enter(index, waiter.is_part ? 0 : part.call.wait_ms_max);
  queues_.mark(waiter.request.named());
  if (!waiter.is_part) waiters_.on_joined(waiter);
  if (!waiter.has_queue()) waiters_.on_fits(waiter);
  if (server_.end_if_ruled_out(index)) return;  // quotas may have changed since it was asked for
  const bool drains = (part.call.flags & api::quota_flag::draining) != 0;
  if (drains && !waiter.is_part) server_.end_wait(index, QuotaCode::draining);
}

// What the waiter at home, and its parts, have to know of one another.
void JoiningWaiters::set_parts(const SpreadPart& part, Waiter& waiter) noexcept {
  const api::SpreadCall& spread = part.spread;
  if (waiter.is_part) {
    waiter.parts[0] = spread.waiters[0];
    return;
  }
  waiter.parts = spread.waiters;
  for (uint8_t place = 0; place < part.call.subjects_count; ++place) {
    const bool has_part = spread.waiters[place] != api::no_waiter;
    if (has_part) waiter.part_bits |= static_cast<uint8_t>(1U << place);
  }
  if (!part.batch.wait_answers.empty()) waiter.answer = part.batch.wait_answers[part.index];
}

}  // namespace sluice::quota
