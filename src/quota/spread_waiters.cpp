#include "quota/spread_waiters.hpp"

#include <utility>

#include "quota/spread_round.hpp"

namespace sluice::quota {

using api::QuotaCall;
using api::QuotaOp;

namespace {

constexpr uint8_t own_bit = 1;  // the first subject is the home's

// Nothing is left to the server any more.
constexpr uint8_t all_given =
    api::given::requests | api::given::input_tokens | api::given::output_tokens | api::given::cost;

}  // namespace

void SpreadWaiters::on_fits(Waiter& waiter) noexcept {
  if (!waiter.is_part) {
    waiter.fit_bits |= own_bit;
    return consider(waiter);
  }
  if (std::exchange(waiter.has_reported, true)) return;
  outgoing_.push_back({.op = QuotaOp::part_fits,
                       .place = waiter.first_place,
                       .home_shard = waiter.home_shard,
                       .shard = waiter.home,
                       .waiter = waiter.parts[0]});
}

void SpreadWaiters::on_out(Waiter& waiter) noexcept {
  if (!waiter.is_part) {
    waiter.has_part_out = true;
    return consider(waiter);
  }
  if (std::exchange(waiter.is_out, true)) return;
  outgoing_.push_back({.op = QuotaOp::part_is_out,
                       .home_shard = waiter.home_shard,
                       .shard = waiter.home,
                       .waiter = waiter.parts[0]});
}

void SpreadWaiters::on_joined(Waiter& waiter) noexcept {
  renew_later(waiter);
  consider(waiter);
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
  renew_later(waiter);
  consider(waiter);
}

void SpreadWaiters::consider(Waiter& waiter) noexcept {
  if (waiter.stage != Waiter::Stage::waiting || !waiter.has_parts()) return;
  const bool all_fit = (waiter.part_bits & ~waiter.fit_bits) == 0;
  if (all_fit || waiter.is_late || waiter.has_part_out) begin_try(waiter);
}

void SpreadWaiters::begin_try(Waiter& waiter) noexcept {
  waiter.unlink();
  waiter.stage = Waiter::Stage::to_try;
  to_try_.push_back(waiter);
}

void SpreadWaiters::renew_later(Waiter& waiter) noexcept {
  if (renewal_ns_ == base::never_ns || !waiter.has_node_parts()) return;
  waiter.renew_at_ns = clock_.ns() + renewal_ns_;
  renewals_.push_back(waiter);
}

void SpreadWaiters::renew_due() noexcept {
  while (next_due_ns() <= clock_.ns()) {
    Waiter& waiter = renewals_.front();
    waiter.unlink();
    to_renew_.push_back(waiter);
  }
}

// One of each, alternately: many that are only renewed do not delay one that can be served.
Waiter& SpreadWaiters::take_next() noexcept {
  const bool renews = to_try_.empty() || (renews_next_ && !to_renew_.empty());
  renews_next_ = !renews;
  Waiters& from = renews ? to_renew_ : to_try_;
  Waiter& waiter = from.front();
  from.pop_front();
  return waiter;
}

void SpreadWaiters::next_try(api::QuotaBatch& batch) noexcept {
  Waiter& waiter = take_next();
  waiter.stage = Waiter::Stage::tried;
  waiter.fit_bits = 0;
  waiter.has_part_out = false;
  const Request& request = waiter.request;
  const bool shows_limits = waiter.answer != nullptr;
  batch.clear();
  batch.arrival = waiter.arrival;
  batch.calls.push_back({.op = waiter.op(),
                         .flags = shows_limits ? api::quota_flag::wants_limits : uint8_t{0},
                         .given_bits = all_given,
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

// A node brings it to all its shards.
void SpreadWaiters::leave_parts(const Waiter& waiter) noexcept {
  api::ShardId last_node = 0;
  for (uint8_t place = 1; place < limits::call_subjects_max; ++place) {
    if ((waiter.part_bits & 1U << place) == 0) continue;
    const api::ShardId stop = shard_of_subject(waiter.request.subjects[place]);
    const bool is_node = api::is_node_stop(stop);
    if (is_node && std::exchange(last_node, stop) == stop) continue;
    outgoing_.push_back({.op = is_node ? QuotaOp::leave_node : QuotaOp::leave_queues,
                         .shard = stop,
                         .waiter = waiter.parts[place],
                         .cursor = waiter.arrival.number,
                         .arrival_ns = waiter.arrival.ns});
  }
}

void SpreadWaiters::forget_shards(Waiter& waiter) const noexcept {
  for (uint8_t place = 1; place < limits::call_subjects_max; ++place) {
    if ((waiter.part_bits & 1U << place) == 0) continue;
    const api::ShardId stop = shard_of_subject(waiter.request.subjects[place]);
    if (!api::is_node_stop(stop)) waiter.part_bits &= static_cast<uint8_t>(~(1U << place));
  }
}

}  // namespace sluice::quota
