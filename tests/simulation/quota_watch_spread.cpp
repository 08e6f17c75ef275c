// The part of QuotaWatch for calls that several shards decide: holds, verdicts, and parts that end.
#include "quota/spread_round.hpp"
#include "quota_watch.hpp"

namespace sluice::simulation {

using api::QuotaOp;
using api::ReservationState;

// A batch of calls that several shards decide. What a shard says about a call is in its SpreadCall.
void QuotaWatch::decide_spread(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                               api::ShardId origin) {
  shard.store.decide(batch, now, origin);
  std::vector<Newcomer> newcomers;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    follow_spread(shard, batch, index, now, newcomers);
  }
  if (batch.awaits_verdict) count(QuotaEvent::held_back);
  after(shard, now);
  for (const Newcomer& newcomer : newcomers) {
    check_newcomer(shard, newcomer);
  }
}

void QuotaWatch::follow_spread(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                               base::Now now, std::vector<Newcomer>& newcomers) {
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
  if (spread.state == api::SpreadCall::State::admitted) {
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
  if (batch.calls[index].op != QuotaOp::reserve || shard.reserved.contains(id)) return;
  const auto held = shard.holds.find({&batch, index});
  const uint64_t sequence = held == shard.holds.end() ? ++sequence_ : held->second;
  Asked asked = asked_of(batch, index);
  asked.subjects.clear();
  for (uint8_t place = 0; place < batch.calls[index].subjects_count; ++place) {
    if (spread.shards[place] != own) continue;
    asked.subjects.emplace_back(batch.subjects[batch.calls[index].first_subject + place]);
  }
  const bool is_part = spread.home() != own;
  if (is_part) asked.client_id.clear();
  if (is_part) asked.binding = 0;
  count(is_part ? QuotaEvent::spread : QuotaEvent::reserved);
  const Asked* const opened = open_up(shard, id, std::move(asked), now);
  if (opened == nullptr) return;
  newcomers.push_back({.sequence = sequence, .asked = opened});
  if (!is_part) return;
  Reserved& part = shard.reserved.at(id);
  part.is_part = true;
  part.due_ms = base::never_ms;  // until its home says so
  --shard.open_count;
  ++shard.open_parts;
}

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
