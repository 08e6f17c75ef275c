#include "quota_watch.hpp"

#include <algorithm>

#include "watched_quotas.hpp"

namespace sluice::simulation {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

// As many waits beyond their limit one step of a store ends; its next step ends the others.
constexpr size_t late_waiters_of_a_step = 64;

// Whether a call of one shard was admitted, and charges something now.
bool takes_amounts(const api::QuotaBatch& batch, size_t index) {
  const api::QuotaCall& call = batch.calls[index];
  const bool may_repeat = !call.client_id.empty();
  return api::asks_admission(call.op) && api::admits(batch.answers[index].code) && !may_repeat;
}

constexpr api::ShardId no_shard = 0xFFFF;  // of calls that are not to be decided yet

std::string code_text(QuotaCode code) {
  return std::string(api::code_name(code));
}

}  // namespace

std::string_view quota_event_name(QuotaEvent event) {
  constexpr std::array<std::string_view, quota_events_count> names = {
      "reserved",    "denied",    "waited",           "granted",     "withdrawn",
      "abandoned",   "refunded",  "repeated",         "settled",     "settled late",
      "ended twice", "cancelled", "extended",         "expired",     "binding ended",
      "recorded",    "consumed",  "consumed late",    "checked",     "reset",
      "put",         "removed",   "batched",          "undelivered", "stayed",
      "left",        "spread",    "held back",        "part ended",  "part expired",
      "parted",      "explained", "explained beside", "left room",   "with a single task"};
  return names[static_cast<uint32_t>(event)];
}

QuotaWatch::QuotaWatch(io::Random& random, QuotaBooks& books, const quota::Options& options,
                       Failure& failure)
    : books_(books), failure_(failure), options_(options), single_steps_(random.chance(0.5)) {}

std::unique_ptr<quota::QuotaDecider> QuotaWatch::watch(std::unique_ptr<quota::QuotaDecider> store) {
  const auto shard = static_cast<api::ShardId>(shards_.size());
  shards_.emplace_back(*store);
  return std::make_unique<WatchedQuotas>(std::move(store), *this, shard);
}

uint32_t QuotaWatch::open_count() const {
  uint32_t count = 0;
  for (const StoreRecord& shard : shards_) count += shard.open_count;
  return count;
}

int64_t QuotaWatch::next_due_ms(api::ShardId shard_id) const {
  const StoreRecord& shard = shards_[shard_id];
  int64_t next_ms = base::never_ms;
  for (const auto& [id, reserved] : shard.reserved) {
    if (reserved.state == ReservationState::open) next_ms = std::min(next_ms, reserved.due_ms);
  }
  for (const auto& [ticket, waiting] : shard.waiting) {
    if (!waiting.is_late) next_ms = std::min(next_ms, waiting.limit_ms);
  }
  return next_ms;
}

void QuotaWatch::check_bindings() {
  for (const StoreRecord& shard : shards_) {
    for (const auto& [id, reserved] : shard.reserved) {
      if (reserved.asked.binding == 0 || reserved.state != ReservationState::open) continue;
      failure_.report("a connection-bound reservation outlives its connection");
    }
  }
}

void QuotaWatch::on_all_left() {
  count(QuotaEvent::left);
  check_undelivered();
}

void QuotaWatch::check_undelivered() {
  for (const StoreRecord& shard : shards_) {
    for (const auto& [id, reserved] : shard.reserved) {
      const bool open = reserved.state == ReservationState::open;
      if (!open || reserved.is_part || !reserved.asked.client_id.empty() || reports_.knows(id))
        continue;
      failure_.report("an undelivered reservation is open, and all clients are gone: " +
                      reserved.asked.owner);
    }
  }
}

void QuotaWatch::check_empty() {
  for (const StoreRecord& shard : shards_) {
    check_counts(shard);
    if (shard.open_parts != 0) failure_.report("parts of reservations are open at the end");
    if (!shard.holds.empty()) failure_.report("calls hold amounts at the end");
    if (!shard.awaiting.empty()) failure_.report("calls await verdicts at the end");
    if (shard.store.has_claims()) failure_.report("calls have claims at the end");
    if (!shard.joining.empty()) failure_.report("calls have places in queues at the end");
    if (!shard.parts.empty()) failure_.report("parts of waiters wait at the end");
    if (shard.open_count != 0) {
      failure_.report(std::to_string(shard.open_count) + " reservations are open at the end");
    }
    if (!shard.waiting.empty()) {
      failure_.report(std::to_string(shard.waiting.size()) + " wait for quotas at the end");
    }
  }
}

void QuotaWatch::audit(api::ShardId shard_id, base::Now now) {
  api::QuotaBatch batch;
  for (const std::string& subject : books_.subjects()) {
    batch.calls.push_back({.op = QuotaOp::usage,
                           .subjects_count = 1,
                           .shard = shard_id,
                           .first_subject = static_cast<uint32_t>(batch.subjects.size())});
    batch.subjects.push_back(subject);
  }
  batch.make_answers();
  shards_[shard_id].store.decide(batch, now, shard_id);
  for (const api::SubjectRow& row : batch.rows) {
    const std::string name(batch.name_of(row));
    if (row.open_reservations != 0) failure_.report(name + " has open reservations at the end");
    if (row.waiting != 0) failure_.report(name + " has waiters at the end");
    for (const api::LimitReport& limit :
         std::span(batch.limits).subspan(row.first_limit, row.limits_count)) {
      const bool is_slots = limit.kind == api::LimitKind::concurrency;
      if ((is_slots ? limit.used : limit.reserved) == 0) continue;
      failure_.report(std::string(limit.name_text()) + " of " + name + " is held at the end");
    }
  }
}

void QuotaWatch::decide(api::ShardId shard_id, api::QuotaBatch& batch, base::Now now,
                        api::ShardId origin) {
  StoreRecord& shard = shards_[shard_id];
  if (!batch.spread.empty()) return decide_spread(shard, batch, now, origin);
  if (batch.pass == api::Pass::end) return end_parts(shard, batch, now, origin);
  if (batch.pass != api::Pass::decide) return shard.store.decide(batch, now, origin);
  // The end of a binding may serve waiters of the same connection: single steps show their order.
  const bool has_end = std::ranges::any_of(
      batch.calls, [](const api::QuotaCall& call) { return call.op == QuotaOp::end_binding; });
  if (single_steps_ || has_end) {
    decide_singly(shard, batch, now, origin);
  } else {
    decide_some(shard, batch, now, origin);
  }
}

void QuotaWatch::decide_singly(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                               api::ShardId origin) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const bool goes_on = std::exchange(batch.awaits_verdict, false);
  const std::vector<uint32_t> put_off = std::exchange(batch.undecided, {});
  std::vector<api::ShardId> owners;
  for (api::QuotaCall& call : batch.calls) owners.push_back(std::exchange(call.shard, no_shard));
  for (size_t index = 0; index < batch.calls.size() && !batch.awaits_verdict; ++index) {
    if (owners[index] != own || (goes_on && batch.answers[index].code != QuotaCode::none)) continue;
    batch.calls[index].shard = own;
    batch.awaits_verdict = std::ranges::count(put_off, index) > 0;
    if (batch.awaits_verdict) batch.undecided = {static_cast<uint32_t>(index)};
    decide_some(shard, batch, now, origin);
    batch.calls[index].shard = no_shard;
  }
  for (size_t index = 0; index < owners.size(); ++index) batch.calls[index].shard = owners[index];
}

void QuotaWatch::decide_some(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                             api::ShardId origin) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  std::vector<bool> decided_before(batch.calls.size());
  for (size_t index = 0; batch.awaits_verdict && index < batch.calls.size(); ++index) {
    decided_before[index] = batch.answers[index].code != QuotaCode::none;
  }
  shard.store.decide(batch, now, origin);
  if (batch.awaits_verdict) count_kept();
  std::vector<Newcomer> newcomers;
  uint32_t calls = 0;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    if (batch.calls[index].shard != own || decided_before[index]) continue;
    const bool awaits = batch.answers[index].code == QuotaCode::none;
    set_awaiting(shard, {&batch, index}, awaits);
    if (awaits) continue;
    if (takes_amounts(batch, index)) check_room_left(shard, {&batch, index}, now);
    follow(shard, batch, index, now, origin, newcomers);
    if (++calls > 1) count(QuotaEvent::batched);
  }
  after(shard, now);
  for (const Newcomer& newcomer : newcomers) {
    check_newcomer(shard, newcomer);
  }
}

QuotaWatch::Asked QuotaWatch::asked_of(const api::QuotaBatch& batch, size_t index) const {
  const api::QuotaCall& call = batch.calls[index];
  Asked asked{
      .subjects = {},
      .client_id = std::string(call.client_id),
      .owner = std::string(call.owner),
      .binding = call.binding,
      .lifetime_ms = call.lifetime_ms != 0 ? call.lifetime_ms : books_.default_lifetime_ms(),
      .consumes = call.op == QuotaOp::consume};
  for (uint32_t place = 0; place < call.subjects_count; ++place) {
    asked.subjects.emplace_back(batch.subjects[call.first_subject + place]);
  }
  return asked;
}

void QuotaWatch::follow(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                        base::Now now, api::ShardId origin, std::vector<Newcomer>& newcomers) {
  const api::QuotaCall& call = batch.calls[index];
  const api::QuotaAnswer& answer = batch.answers[index];
  const bool done = answer.code == QuotaCode::ok;
  check_refusal(shard, batch, index);
  check_reason(shard, batch, index, now);
  switch (call.op) {
    case QuotaOp::reserve:
    case QuotaOp::consume:
      return follow_admission(shard, batch, index, now, origin, newcomers);
    case QuotaOp::settle:
      return follow_end(shard, call, answer);
    case QuotaOp::cancel:
      if ((call.flags & api::quota_flag::undelivered) != 0)
        return follow_undelivered(shard, call, answer);
      return follow_end(shard, call, answer);
    case QuotaOp::extend:
      return follow_extend(shard, call, answer, now);
    case QuotaOp::end_binding:
      return end_binding(shard, call.binding);
    case QuotaOp::expire_part:
      return expire_part(shard, call);
    case QuotaOp::leave_queues:
      return part_left(shard, call.waiter);
    case QuotaOp::record:
      return count(QuotaEvent::recorded);
    case QuotaOp::check:
      return count(QuotaEvent::checked);
    case QuotaOp::reset:
    case QuotaOp::reset_all:
      return count(QuotaEvent::reset);
    case QuotaOp::put:
      if (done) count(QuotaEvent::put);
      return;
    case QuotaOp::remove:
      if (done) count(QuotaEvent::removed);
      return;
    default:
      return;
  }
}

// A call is refused as too many only when there are as many as allowed, and because of a drain only
// when it would wait. A call that was decided before others of its batch cannot be judged.
void QuotaWatch::check_refusal(const StoreRecord& shard, const api::QuotaBatch& batch,
                               size_t index) {
  const api::QuotaCall& call = batch.calls[index];
  const QuotaCode code = batch.answers[index].code;
  const bool may_wait = (call.flags & api::quota_flag::may_wait) != 0;
  const bool is_flagged = (call.flags & api::quota_flag::draining) != 0;
  if (shard.drains && !is_flagged) failure_.report("a shard that drains decides as if it did not");
  if (is_flagged && std::ranges::none_of(shards_, &StoreRecord::drains)) {
    failure_.report("a call is decided as in a drain, and no shard drains");
  }
  if (code == QuotaCode::draining && (!is_flagged || !may_wait)) {
    failure_.report("a call that would not wait was refused because of a drain");
  }
  if (single_steps_ && !is_full(shard, batch, index)) {
    failure_.report("a call was answered " + code_text(code) + ", and there is room");
  }
}

bool QuotaWatch::is_full(const StoreRecord& shard, const api::QuotaBatch& batch,
                         size_t index) const {
  const api::QuotaCall& call = batch.calls[index];
  const size_t waiting = shard.store.waiters_count() + shard.store.grants().size() +
                         shard.parts.size() + shard.joining.size();
  const auto waits_for = [&](std::string_view subject) {
    const auto names = [&](const auto& one) {
      return std::ranges::count(one.second.asked.subjects, subject) > 0;
    };
    return std::ranges::count_if(shard.waiting, names) + std::ranges::count_if(shard.parts, names);
  };
  switch (batch.answers[index].code) {
    case QuotaCode::reservations_full:
      return shard.store.reservations_count() + shard.open_parts + shard.holds.size() ==
             options_.reservations_max;
    case QuotaCode::subjects_full:
      return shard.store.subjects_count() == options_.subjects_max;
    case QuotaCode::waiters_full:
      return waiting >= options_.waiters_max;
    case QuotaCode::subject_waiters_full:
      return std::ranges::any_of(
          std::span(batch.subjects).subspan(call.first_subject, call.subjects_count),
          [&](std::string_view subject) {
            return static_cast<size_t>(waits_for(subject)) + waiting >= options_.waiters_max;
          });
    case QuotaCode::connection_waiters_full:
      return (call.flags & api::quota_flag::connection_waiters_full) != 0;
    default:
      return true;
  }
}

// Only of a call that was decided alone: the next one may have freed what was in its way.
void QuotaWatch::check_reason(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                              base::Now now) {
  const QuotaCode code = batch.answers[index].code;
  const bool is_full = code >= QuotaCode::rpd_exceeded && code <= QuotaCode::concurrency_exceeded;
  const bool is_behind_some = code == QuotaCode::queue_ahead || code == QuotaCode::queued;
  if (!single_steps_ || !(is_full || is_behind_some)) return;
  explain(shard, batch, index, is_behind_some, now);
}

void QuotaWatch::explain(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                         bool may_be_behind, base::Now now) {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  std::vector<CallName> holds;
  for (const auto& [hold, sequence] : shard.holds) holds.push_back(hold);
  const CallName call{&batch, index};
  if (may_be_behind && is_behind(shard, call)) return;
  switch (lacks_room(shard.store, call, holds, own, now)) {
    case LacksRoom::yes:
      return count(holds.empty() ? QuotaEvent::explained : QuotaEvent::explained_beside);
    case LacksRoom::unknown:
      return;
    case LacksRoom::no:
      return failure_.report("a call was refused, or waits, and nothing but holds is in its way");
  }
}

// Whether somebody who came earlier waits for one of the call's subjects.
bool QuotaWatch::is_behind(const StoreRecord& shard, const CallName& call) const {
  const auto own = static_cast<api::ShardId>(&shard - shards_.data());
  const std::vector<std::string_view> subjects = subjects_at(call, own);
  const auto is_ahead = [&](const auto& one) {
    const Waiting& waiting = one.second;
    return waiting.arrival < call.first->arrival_of(call.second) &&
           std::ranges::find_first_of(waiting.asked.subjects, subjects) !=
               waiting.asked.subjects.end();
  };
  return std::ranges::any_of(shard.waiting, is_ahead) || std::ranges::any_of(shard.parts, is_ahead);
}

void QuotaWatch::follow_admission(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                                  base::Now now, api::ShardId origin,
                                  std::vector<Newcomer>& newcomers) {
  const api::QuotaCall& call = batch.calls[index];
  const api::QuotaAnswer& answer = batch.answers[index];
  if (follow_repeat(shard, call, answer, now)) return;
  Asked asked = asked_of(batch, index);
  if (answer.code == QuotaCode::queued) return begin_wait(shard, batch, index, now, origin);
  if (!api::admits(answer.code)) {
    count(QuotaEvent::denied);
    if (answer.reservation != 0) failure_.report("a denial came with a reservation");
    return;
  }
  if (asked.consumes) {
    // The repeat of one that was charged stands in no queue.
    if (shard.consumed_ids.contains(asked.client_id)) return count(QuotaEvent::repeated);
    count(QuotaEvent::consumed);
    check_consumed(shard, asked, answer.reservation);
  } else {
    count(QuotaEvent::reserved);
    if (!open_up(shard, answer.reservation, asked, now)) return;
  }
  newcomers.push_back(
      {.sequence = ++sequence_, .arrival = batch.arrival_of(index), .asked = std::move(asked)});
}

void QuotaWatch::note_consumed(StoreRecord& shard, const Asked& asked) {
  if (asked.consumes && !asked.client_id.empty()) shard.consumed_ids.insert(asked.client_id);
}

// Its subjects had a free slot, and it holds none.
void QuotaWatch::check_consumed(StoreRecord& shard, const Asked& asked, uint64_t reservation) {
  note_consumed(shard, asked);
  if (reservation != 0) failure_.report("a consume has made a reservation");
  if (ended_binding_ != 0) return;
  for (const std::string& subject : asked.subjects) {
    const auto open = shard.open.find(subject);
    if (open == shard.open.end() || open->second < books_.slots_of(subject)) continue;
    failure_.report("a consume was admitted, and " + subject + " has no free slot");
  }
}

void QuotaWatch::begin_wait(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                            base::Now now, api::ShardId origin) {
  const api::QuotaCall& call = batch.calls[index];
  Waiting waiting{.sequence = ++sequence_,
                  .arrival = batch.arrival_of(index),
                  .asked = asked_of(batch, index),
                  .waiter = batch.answers[index].waiter};
  waiting.is_spread = !batch.spread.empty();
  if (!waiting.asked.owner.empty()) books_.note_queued(waiting.asked.owner);
  count(QuotaEvent::waited);
  const int64_t wait_ns = int64_t{call.wait_ms_max} * base::ns_per_ms;
  if (wait_ns != 0) waiting.limit_ms = base::ceil_ms(now.monotonic_ns + wait_ns);
  const auto [at, fresh] =
      shard.waiting.emplace(TicketName{origin, call.ticket}, std::move(waiting));
  if (!fresh) failure_.report("a ticket is queued twice");
}

// While the reservation lives, a repeat gets the first answer. The store may forget one that has
// ended to make room for another.
bool QuotaWatch::follow_repeat(StoreRecord& shard, const api::QuotaCall& call,
                               const api::QuotaAnswer& answer, base::Now now) {
  const auto known = shard.by_client.find(std::string(call.client_id));
  if (call.client_id.empty() || known == shard.by_client.end()) return false;
  Reserved& before = shard.reserved.at(known->second);
  if (answer.reservation == known->second) {
    before.was_repeated = true;
    count(QuotaEvent::repeated);
    return true;
  }
  // The store may not have expired it yet.
  const bool lasts = before.state == ReservationState::open;
  if (lasts && base::floor_ms(now.monotonic_ns) < before.due_ms) {
    failure_.report("a repeat of " + known->first + " was answered " + code_text(answer.code) +
                    " while its reservation is open");
  }
  return false;
}

bool QuotaWatch::open_up(StoreRecord& shard, uint64_t id, Asked asked, base::Now now) {
  const int64_t due_ms = base::ceil_ms(now.monotonic_ns) + asked.lifetime_ms;
  if (id == 0 || shard.reserved.contains(id)) {
    failure_.report("an admission without a reservation of its own");
    return false;
  }
  if (!asked.client_id.empty()) shard.by_client[asked.client_id] = id;
  Reserved& reserved = shard.reserved[id];
  reserved = {.asked = std::move(asked), .due_ms = due_ms, .amounts = {}};
  ++shard.open_count;
  for (const std::string& subject : reserved.asked.subjects) ++shard.open[subject];
  if (ended_binding_ == 0) check_concurrency(shard, reserved.asked);
  return true;
}

void QuotaWatch::check_concurrency(const StoreRecord& shard, const Asked& asked) {
  for (const std::string& subject : asked.subjects) {
    const uint64_t open = shard.open.at(subject);
    if (open <= books_.slots_of(subject)) continue;
    failure_.report(std::to_string(open) + " hold a slot of " + subject + ", which has " +
                    std::to_string(books_.slots_of(subject)));
  }
}

void QuotaWatch::close(StoreRecord& shard, Reserved& reserved, ReservationState state) {
  if (reserved.state == ReservationState::open) {
    --(reserved.is_part ? shard.open_parts : shard.open_count);
    for (const std::string& subject : reserved.asked.subjects) --shard.open[subject];
  }
  reserved.state = state;
}

void QuotaWatch::follow_end(StoreRecord& shard, const api::QuotaCall& call,
                            const api::QuotaAnswer& answer) {
  const auto found = shard.reserved.find(call.reservation);
  if (found == shard.reserved.end()) {
    if (answer.code != QuotaCode::unknown_reservation) {
      failure_.report("a reservation that never was ended: " + code_text(answer.code));
    }
    return;
  }
  Reserved& reserved = found->second;
  const bool settles = call.op == QuotaOp::settle;
  const ReservationState wanted = settles ? ReservationState::settled : ReservationState::cancelled;
  const bool open = reserved.state == ReservationState::open;
  if (answer.code == QuotaCode::unknown_reservation && !open) return;  // forgotten by now
  if (open || reserved.state == ReservationState::expired) {
    if (answer.code != QuotaCode::ok || answer.late == open) {
      failure_.report("an end of a reservation that is " + std::string(open ? "open" : "expired") +
                      " was answered " + code_text(answer.code) + (answer.late ? ", late" : ""));
    }
    count(settles ? QuotaEvent::settled : QuotaEvent::cancelled);
    if (settles && !open) count(QuotaEvent::settled_late);
    close(shard, reserved, wanted);
    reserved.late = answer.late;
    reserved.amounts = answer.amounts;
    return;
  }
  const bool same = answer.state == reserved.state && answer.late == reserved.late &&
                    answer.amounts == reserved.amounts;
  if (!same || (answer.code == QuotaCode::ok) != (reserved.state == wanted)) {
    failure_.report("a repeated end was answered " + code_text(answer.code) +
                    ", other than the first");
  }
  count(QuotaEvent::ended_twice);
}

// The worker cancels an undelivered reservation; or it has expired, and may be forgotten.
void QuotaWatch::follow_undelivered(StoreRecord& shard, const api::QuotaCall& call,
                                    const api::QuotaAnswer& answer) {
  const auto found = shard.reserved.find(call.reservation);
  if (found == shard.reserved.end())
    return failure_.report("a reservation that never was is cancelled");
  Reserved& reserved = found->second;
  const bool open = reserved.state == ReservationState::open;
  if (!open && reserved.state != ReservationState::expired) return;
  if (!open && answer.code == QuotaCode::unknown_reservation) return;
  const bool stays =
      !reserved.asked.client_id.empty() && (reserved.asked.binding == 0 || reserved.was_repeated);
  if (answer.code != (stays ? QuotaCode::id_in_use : QuotaCode::ok)) {
    failure_.report("the cancel of an undelivered reservation was answered " +
                    code_text(answer.code));
  }
  count(stays ? QuotaEvent::stayed : QuotaEvent::undelivered);
  if (stays) return;
  if (books_.find(call.reservation) != nullptr)
    failure_.report("a reservation that a client has received is cancelled");
  close(shard, reserved, ReservationState::cancelled);
  reserved.late = answer.late;
  reserved.amounts = answer.amounts;
}

void QuotaWatch::follow_extend(StoreRecord& shard, const api::QuotaCall& call,
                               const api::QuotaAnswer& answer, base::Now now) {
  const auto found = shard.reserved.find(call.reservation);
  const bool open = found != shard.reserved.end() && found->second.state == ReservationState::open;
  if (open != (answer.code == QuotaCode::ok)) {
    failure_.report(std::string("an extend of what is ") + (open ? "open" : "not open") +
                    " was answered " + code_text(answer.code));
  }
  if (!open) return;
  count(QuotaEvent::extended);
  Reserved& reserved = found->second;
  if (call.lifetime_ms != 0) reserved.asked.lifetime_ms = call.lifetime_ms;
  reserved.due_ms = base::ceil_ms(now.monotonic_ns) + reserved.asked.lifetime_ms;
}

void QuotaWatch::end_binding(StoreRecord& shard, uint64_t binding) {
  ended_binding_ = binding;
  for (auto& [id, reserved] : shard.reserved) {
    if (reserved.asked.binding != binding || reserved.state != ReservationState::open) continue;
    count(QuotaEvent::binding_ended);
    close(shard, reserved, ReservationState::expired);
  }
}

// In the order of the outcomes: each is for a waiter, and overtakes no earlier one.
void QuotaWatch::follow_grants(StoreRecord& shard, base::Now now) {
  granted_.clear();
  for (; shard.grants_seen < shard.store.grants().size(); ++shard.grants_seen) {
    const api::Grant& grant = shard.store.grants()[shard.grants_seen];
    const auto found = shard.waiting.find({grant.origin, grant.ticket});
    if (found == shard.waiting.end()) return failure_.report("an outcome without a waiter");
    Waiting waiting = std::move(found->second);
    shard.waiting.erase(found);
    if (!waiting.asked.owner.empty()) books_.note_outcome(waiting.asked.owner);
    if (grant.code == api::QuotaCode::withdrawn) count(QuotaEvent::withdrawn);
    const bool was_limited = grant.code == api::QuotaCode::wait_limit;
    if (was_limited && base::floor_ms(now.monotonic_ns) < waiting.limit_ms) {
      return failure_.report("a waiter for quotas was given up before its wait limit");
    }
    if (grant.verdict != api::Verdict::approved) continue;
    count(QuotaEvent::granted);
    // Of one that several shards have admitted, this was followed there.
    const uint64_t reservation = grant.refund_claim.reservation;
    note_consumed(shard, waiting.asked);
    if (waiting.is_spread && (waiting.asked.consumes || shard.reserved.contains(reservation)))
      continue;
    check_served(shard, waiting);
    if (waiting.asked.consumes) {
      count(QuotaEvent::consumed_late);
      check_consumed(shard, waiting.asked, reservation);
    } else if (open_up(shard, reservation, std::move(waiting.asked), now)) {
      granted_.push_back(reservation);
    }
  }
  if (ended_binding_ != 0) end_granted(shard);
}

// The end of a binding may serve waiters of the same connection. The first of these reservations
// end as well; the last finds no client, and is refunded.
void QuotaWatch::end_granted(StoreRecord& shard) {
  const uint64_t binding = std::exchange(ended_binding_, 0);
  for (const uint64_t id : granted_) {
    Reserved& reserved = shard.reserved.at(id);
    if (reserved.asked.binding != binding || shard.open_count <= shard.store.reservations_count())
      continue;
    count(QuotaEvent::binding_ended);
    close(shard, reserved, ReservationState::expired);
  }
  for (const uint64_t id : granted_) check_concurrency(shard, shard.reserved.at(id).asked);
}

void QuotaWatch::check_newcomer(const StoreRecord& shard, const Newcomer& newcomer) {
  check_order(shard, newcomer.asked, "a newcomer", [&](const Waiting& waiting) {
    return waiting.sequence < newcomer.sequence && waiting.arrival < newcomer.arrival;
  });
}

// Waiters are served in the order of their arrival. Those that have joined in the same step may
// have come after it was served.
void QuotaWatch::check_served(const StoreRecord& shard, const Waiting& served) {
  check_order(shard, served.asked, "a waiter", [&](const Waiting& waiting) {
    const bool waited = waiting.sequence < served.sequence || waiting.sequence <= step_begin_;
    return waited && waiting.arrival < served.arrival;
  });
}

template <typename IsAhead>
void QuotaWatch::check_order(const StoreRecord& shard, const Asked& asked, const char* name,
                             IsAhead is_ahead) {
  if (!books_.strict()) return;
  const auto check = [&](const Waiting& waiting) {
    if (!is_ahead(waiting)) return;
    for (const std::string& subject : asked.subjects) {
      if (std::ranges::count(waiting.asked.subjects, subject) == 0) continue;
      if (!books_.has_quota(subject)) continue;
      failure_.report(std::string(name) + " overtook a waiter of " + subject);
    }
  };
  for (const auto& [ticket, waiting] : shard.waiting) check(waiting);
  for (const auto& [waiter, part] : shard.parts) check(part);
}

void QuotaWatch::check_counts(const StoreRecord& shard) {
  if (shard.store.reservations_count() != shard.open_count) {
    failure_.report(std::to_string(shard.store.reservations_count()) +
                    " reservations are open where there should be " +
                    std::to_string(shard.open_count));
  }
  if (shard.store.waiters_count() != shard.waiting.size()) {
    failure_.report(std::to_string(shard.store.waiters_count()) + " wait for quotas where " +
                    std::to_string(shard.waiting.size()) + " should");
  }
}

void QuotaWatch::after(StoreRecord& shard, base::Now now) {
  follow_grants(shard, now);
  step_begin_ = sequence_;
  if (!failure_) check_counts(shard);
}

bool QuotaWatch::withdraw(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket,
                          base::Now now, api::ShardId origin) {
  StoreRecord& shard = shards_[shard_id];
  const auto waiting = shard.waiting.find({origin, ticket});
  // While the shards are asked for it, it cannot leave: its outcome follows.
  const bool leaves = waiting != shard.waiting.end() && !waiting->second.is_tried;
  const bool withdrawn = shard.store.withdraw(waiter, ticket, now, origin);
  if (withdrawn != leaves)
    failure_.report("a withdrawal from a quota's queue had the wrong result");
  after(shard, now);
  return withdrawn;
}

bool QuotaWatch::abandon(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket,
                         base::Now now, api::ShardId origin) {
  StoreRecord& shard = shards_[shard_id];
  const auto waiting = shard.waiting.find({origin, ticket});
  const bool waited = waiting != shard.waiting.end() && !waiting->second.is_tried;
  if (waiting != shard.waiting.end() && !waited) waiting->second.is_abandoned = true;
  if (waited) {
    const std::string& owner = waiting->second.asked.owner;
    if (!owner.empty()) books_.note_outcome(owner);
    shard.waiting.erase(waiting);
  }
  const bool abandoned = shard.store.abandon(waiter, ticket, now, origin);
  if (abandoned != waited)
    failure_.report("an abandonment in a quota's queue had the wrong result");
  if (abandoned) count(QuotaEvent::abandoned);
  after(shard, now);
  return abandoned;
}

bool QuotaWatch::refund(api::ShardId shard_id, const api::RefundClaim& refund_claim,
                        base::Now now) {
  StoreRecord& shard = shards_[shard_id];
  const bool taken = shard.store.refund(refund_claim, now);
  const auto found = shard.reserved.find(refund_claim.reservation);
  if (found == shard.reserved.end()) {
    failure_.report("a reservation that never was is refunded");
  } else if (taken) {
    count(QuotaEvent::refunded);
    // Another client may have received it under its id.
    if (found->second.was_repeated) failure_.report("what another client holds is refunded");
    found->second.late = found->second.state != ReservationState::open;
    found->second.amounts = {.requests = 0};
    close(shard, found->second, ReservationState::cancelled);
  }
  after(shard, now);
  return taken;
}

void QuotaWatch::drain(api::ShardId shard_id, base::Now now) {
  StoreRecord& shard = shards_[shard_id];
  shard.drains = true;
  shard.store.drain(now);
  after(shard, now);
}

void QuotaWatch::adopt(api::ShardId shard_id, policy::QuotaBook& book, base::Now now) {
  StoreRecord& shard = shards_[shard_id];
  shard.store.adopt(book, now);
  after(shard, now);
}

void QuotaWatch::run_due(api::ShardId shard_id, base::Now now) {
  StoreRecord& shard = shards_[shard_id];
  for (auto& [id, reserved] : shard.reserved) {
    if (reserved.state != ReservationState::open) continue;
    if (base::floor_ms(now.monotonic_ns) < reserved.due_ms) continue;
    count(QuotaEvent::expired);
    close(shard, reserved, ReservationState::expired);
  }
  const bool was_due = shard.store.next_due_ns() <= now.monotonic_ns;
  const size_t grants = shard.store.grants().size();
  shard.store.run_due(now);
  if (!was_due && shard.store.grants().size() > grants) {
    failure_.report("the wait of a quota's waiter ends, and was not due");
  }
  const size_t ended = shard.store.grants().size() - grants;
  after(shard, now);
  if (ended >= late_waiters_of_a_step) return;
  for (auto& [ticket, waiting] : shard.waiting) {
    if (base::floor_ms(now.monotonic_ns) < waiting.limit_ms) continue;
    waiting.is_late = true;  // it has a last try
    if (!waiting.is_spread) failure_.report("a waiter for quotas waits beyond its limit");
  }
}

void QuotaWatch::keep_grants(api::ShardId shard_id, size_t count) {
  StoreRecord& shard = shards_[shard_id];
  shard.store.keep_grants(count);
  shard.grants_seen = count;
}

}  // namespace sluice::simulation
