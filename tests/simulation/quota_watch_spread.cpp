// The part of QuotaWatch for calls that several shards decide: holds, verdicts, and parts that end.
#include <algorithm>

#include "quota/spread_round.hpp"
#include "quota_watch.hpp"

namespace sluice::simulation {

using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

// A batch of calls that several shards decide. What a shard says about a call is in its SpreadCall.
void QuotaWatch::decide_spread(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                               api::ShardId origin) {
  const std::vector<api::SpreadCall> before = batch.spread;
  const bool asks = batch.pass == api::Pass::ask;
  shard.store.decide(batch, now, origin);
  std::vector<Newcomer> newcomers;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    follow_awaiting(shard, batch, index, before[index], asks, now);
    follow_joining(shard, batch, index, before[index], now, origin);
    follow_spread(shard, batch, index, before[index], now, newcomers);
  }
  for (size_t index = 0; asks && index < batch.calls.size(); ++index) {
    check_part(shard, batch, index, before[index], now);
  }
  if (batch.awaits_verdict) count_kept();
  after(shard, now);
  for (const Newcomer& newcomer : newcomers) {
    check_newcomer(shard, newcomer);
  }
}

void QuotaWatch::follow_spread(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                               const api::SpreadCall& before, base::Now now,
                               std::vector<Newcomer>& newcomers) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread[index];
  const uint8_t place = quota::first_place(batch.calls[index], spread, own);
  if (place == batch.calls[index].subjects_count) return;
  if (spread.is_repeat && spread.home() == own) {
    const auto known = shard.reserved.find(batch.answers[index].reservation);
    if (known != shard.reserved.end()) known->second.was_repeated = true;
    count(QuotaEvent::repeated);
  }
  const uint32_t hold = spread.holds[place];
  const bool holds = hold != api::SpreadCall::no_hold && hold != api::SpreadCall::without_hold;
  if (holds) {
    shard.holds.emplace(CallName{&batch, index}, ++sequence_);
    return;
  }
  const bool is_new =
      before.state == api::SpreadCall::State::undecided || shard.holds.contains({&batch, index});
  if (spread.state == api::SpreadCall::State::admitted && is_new && !spread.is_repeat) {
    follow_admitted(shard, batch, index, now, newcomers);
  } else if (spread.state == api::SpreadCall::State::undecided && spread.awaits()) {
    count(QuotaEvent::held_back);
  }
  shard.holds.erase({&batch, index});
}

// The shard has applied the verdict that the call is admitted.
void QuotaWatch::follow_admitted(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                                 base::Now now, std::vector<Newcomer>& newcomers) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread[index];
  const uint64_t id = batch.answers[index].reservation;
  if (!api::asks_admission(batch.calls[index].op) || shard.reserved.contains(id)) return;
  const auto held = shard.holds.find({&batch, index});
  const uint64_t sequence = held == shard.holds.end() ? ++sequence_ : held->second;
  if (spread.is_try) return follow_try(shard, batch, sequence, now);
  Asked asked = asked_here(shard, batch, index);
  const bool is_part = spread.home() != own;
  if (is_part) asked.client_id.clear();
  if (is_part) asked.binding = 0;
  if (asked.consumes) {
    count(QuotaEvent::consumed);
    check_consumed(shard, asked, id);
  } else {
    count(is_part ? QuotaEvent::spread : QuotaEvent::reserved);
    if (!open_up(shard, id, asked, now)) return;
    if (is_part) make_part(shard, shard.reserved.at(id));
  }
  newcomers.push_back(
      {.sequence = sequence, .arrival = batch.arrival_of(index), .asked = std::move(asked)});
}

// A shard that was asked has found something in the way of its part.
void QuotaWatch::check_part(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                            const api::SpreadCall& before, base::Now now) {
  const api::SpreadCall& spread = batch.spread[index];
  if (spread.is_try || spread.problem != QuotaCode::ok) return;
  const bool lacks_room = before.code == QuotaCode::ok && spread.code != QuotaCode::ok;
  const bool is_behind = before.queue_fits_at_ns == 0 && spread.queue_fits_at_ns > 0;
  if (lacks_room || is_behind) explain(shard, batch, index, !lacks_room, now);
}

// ------------------------------------------------------------------------------- the order

// A call that is put off, or whose round ends without a verdict, awaits one at this shard until it
// is asked for again.
void QuotaWatch::follow_awaiting(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                                 const api::SpreadCall& before, bool asks, base::Now now) {
  using State = api::SpreadCall::State;
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread[index];
  const uint8_t place = quota::first_place(batch.calls[index], spread, own);
  if (place == batch.calls[index].subjects_count || before.state != State::undecided) return;
  const CallName call{&batch, index};
  const auto is_hold = [](uint32_t hold) {
    return hold != api::SpreadCall::no_hold && hold != api::SpreadCall::without_hold;
  };
  const bool is_held = is_hold(spread.holds[place]);
  if (is_held && !is_hold(before.holds[place])) {
    set_awaiting(shard, call, false);
    // A record is charged whatever others await.
    if (api::asks_admission(batch.calls[index].op)) check_room_left(shard, call, now);
    return;
  }
  const bool is_asked = asks && std::ranges::count(batch.round(), index) > 0 && !spread.awaits();
  if (spread.state != State::undecided || is_asked) return set_awaiting(shard, call, false);
  const bool is_put_off = spread.awaits_others && spread.awaits_at == own;
  const bool is_dropped = is_hold(before.holds[place]) && !is_held;
  if (is_put_off || is_dropped) set_awaiting(shard, call, true);
}

void QuotaWatch::set_awaiting(StoreRecord& shard, const CallName& call, bool awaits) {
  if (awaits) {
    shard.awaiting.insert(call);
  } else {
    shard.awaiting.erase(call);
  }
}

// A call has taken something: what is left has to do for all that came before it and await a
// verdict.
void QuotaWatch::check_room_left(StoreRecord& shard, const CallName& call, base::Now now) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  std::vector<CallName> earlier;
  std::ranges::copy_if(shard.awaiting, std::back_inserter(earlier), [&](const CallName& other) {
    return other.first->arrival_of(other.second) < call.first->arrival_of(call.second);
  });
  if (!share_subject(call, earlier, own)) return;
  count(QuotaEvent::left_room);
  if (!leaves_room(shard.store, call, earlier, own, now)) {
    failure_.report("a call takes what an earlier one awaits");
  }
}

// It stays until its home says otherwise.
void QuotaWatch::make_part(StoreRecord& shard, Reserved& part) {
  part.is_part = true;
  part.due_ms = base::never_ms;
  --shard.open_count;
  ++shard.open_parts;
}

// What the call asks of this shard.
QuotaWatch::Asked QuotaWatch::asked_here(const StoreRecord& shard, const api::QuotaBatch& batch,
                                         size_t index) const {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread[index];
  Asked asked = asked_of(batch, index);
  asked.subjects.clear();
  for (uint8_t place = 0; place < batch.calls[index].subjects_count; ++place) {
    if (spread.shards[place] != own) continue;
    asked.subjects.emplace_back(batch.subjects[batch.calls[index].first_subject + place]);
  }
  return asked;
}

// ------------------------------------------------------------------------------------- waiting

// A call that may wait takes a place in the queues of each shard until its verdict.
void QuotaWatch::follow_joining(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                                const api::SpreadCall& before, base::Now now, api::ShardId origin) {
  using State = api::SpreadCall::State;
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread[index];
  const uint8_t place = quota::first_place(batch.calls[index], spread, own);
  if (place == batch.calls[index].subjects_count || spread.is_try) return;
  const api::WaiterId waiter = spread.waiters[place];
  if (waiter == api::no_waiter) return;
  if (spread.holds[place] != api::SpreadCall::no_hold) {
    shard.joining.emplace(&batch, index);
    return;
  }
  const bool had_place = shard.joining.erase({&batch, index}) > 0;
  const bool is_asked_last = before.state == State::undecided && spread.state != State::undecided;
  if (spread.state != State::queued || !(had_place || is_asked_last)) return;
  if (spread.home() == own) {
    begin_wait(shard, batch, index, now, origin);
    Waiting* const waiting = find_waiter(shard, waiter);
    if (waiting != nullptr) waiting->asked.subjects = asked_here(shard, batch, index).subjects;
    return;
  }
  count(QuotaEvent::parted);
  shard.parts[waiter] = {.sequence = ++sequence_,
                         .arrival = batch.arrival_of(index),
                         .asked = asked_here(shard, batch, index),
                         .waiter = waiter};
}

// All shards have admitted a waiter: nothing was ahead of it when this shard was asked.
void QuotaWatch::follow_try(StoreRecord& shard, const api::QuotaBatch& batch, uint64_t sequence,
                            base::Now now) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const api::SpreadCall& spread = batch.spread.front();
  const uint8_t place = quota::first_place(batch.calls.front(), spread, own);
  const api::WaiterId waiter = spread.waiters[place];
  const bool is_part = spread.home() != own;
  Waiting* const waiting = is_part ? &shard.parts[waiter] : find_waiter(shard, waiter);
  if (waiting == nullptr || waiting->waiter != waiter) {
    return failure_.report("a waiter that never was is admitted");
  }
  check_order(shard, waiting->asked, "a waiter of several shards", [&](const Waiting& other) {
    return &other != waiting && other.sequence < sequence && other.arrival < waiting->arrival;
  });
  const uint64_t id = batch.answers.front().reservation;
  Asked asked = waiting->asked;
  if (is_part) asked.client_id.clear();
  if (is_part) asked.binding = 0;
  if (is_part) shard.parts.erase(waiter);
  if (asked.consumes) {
    if (!is_part) count(QuotaEvent::consumed_late);
    return check_consumed(shard, asked, id);
  }
  if (!open_up(shard, id, std::move(asked), now)) return;
  if (is_part) make_part(shard, shard.reserved.at(id));
}

void QuotaWatch::part_left(StoreRecord& shard, api::WaiterId part) {
  if (shard.parts.erase(part) == 0) failure_.report("a part of a waiter leaves that never was");
}

QuotaWatch::Waiting* QuotaWatch::find_waiter(StoreRecord& shard, api::WaiterId waiter) {
  const auto found = std::ranges::find_if(
      shard.waiting, [&](const auto& one) { return one.second.waiter == waiter; });
  if (found != shard.waiting.end()) return &found->second;
  failure_.report("no such waiter");
  return nullptr;
}

void QuotaWatch::next_try(api::ShardId shard_id, api::QuotaBatch& batch) {
  StoreRecord& shard = shards_[shard_id];
  shard.store.next_try(batch);
  if (has_single_task_) count(QuotaEvent::with_single_task);
  if (Waiting* const waiting = find_waiter(shard, batch.spread.front().waiters[0])) {
    waiting->is_tried = true;
  }
}

void QuotaWatch::end_try(api::ShardId shard_id, const api::QuotaBatch& batch, base::Now now) {
  StoreRecord& shard = shards_[shard_id];
  const api::WaiterId waiter = batch.spread.front().waiters[0];
  bool is_orphan = false;
  if (Waiting* const waiting = find_waiter(shard, waiter)) {
    waiting->is_tried = false;
    is_orphan = waiting->is_abandoned && waiting->asked.binding != 0;
  }
  // The end of its connection has passed this shard, perhaps before the reservation was made.
  const auto made = shard.reserved.find(batch.answers.front().reservation);
  if (is_orphan && made != shard.reserved.end()) {
    count(QuotaEvent::binding_ended);
    close(shard, made->second, ReservationState::expired);
  }
  const bool goes_on = batch.answers.front().code == QuotaCode::queued;
  if (goes_on && batch.spread.front().is_last_try) {
    failure_.report("a waiter waits on after its last try");
  }
  shard.store.end_try(batch, now);
  after(shard, now);
}

// ------------------------------------------------------------------------------------- ends

// Parts end as their homes have.
void QuotaWatch::end_parts(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                           api::ShardId origin) {
  shard.store.decide(batch, now, origin);
  for (const api::PartEnd& end : batch.part_ends) {
    if (end.shard != &shard - shards_.data()) continue;
    const auto found = shard.reserved.find(batch.calls[end.call].reservation);
    if (found == shard.reserved.end() || !found->second.is_part) {
      failure_.report("a part that never was is ended");
      continue;
    }
    count(QuotaEvent::part_ended);
    close(shard, found->second, batch.answers[end.call].state);
  }
  after(shard, now);
}

void QuotaWatch::expire_part(StoreRecord& shard, const api::QuotaCall& call) {
  const auto found = shard.reserved.find(call.reservation);
  if (found == shard.reserved.end() || !found->second.is_part) {
    return failure_.report("a part that never was expires");
  }
  if (found->second.state != ReservationState::open) return;  // settled meanwhile
  count(QuotaEvent::part_expired);
  close(shard, found->second, ReservationState::expired);
}

}  // namespace sluice::simulation
