#include "quota/spread_decider.hpp"

#include <algorithm>
#include <utility>

#include "quota/answer_limits.hpp"
#include "quota/limited_subject_meters.hpp"
#include "quota/spread_round.hpp"

namespace sluice::quota {

using api::Pass;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

// How often a waiter whose limit has passed is tried again because its queues are still served.
constexpr uint8_t late_tries_max = 32;

void SpreadDecider::decide(QuotaBatch& batch, api::ShardId origin) noexcept {
  batch.awaits_verdict = false;
  origin_ = origin;
  switch (batch.pass) {
    case Pass::await:
      return await(batch);
    case Pass::look:
    case Pass::ask:
      ask_all(batch);
      if (batch.pass != Pass::ask || !batch.is_last_asked) return;
      [[fallthrough]];
    case Pass::conclude:
      conclude(batch, clock_.ns(), statistics_);
      [[fallthrough]];
    case Pass::apply:
    case Pass::open:
      return apply_all(batch);
    case Pass::forget:
      return forget(batch);
    case Pass::decide:
    case Pass::end:
    case Pass::extend:
    case Pass::complete:
      return;
  }
}

void SpreadDecider::ask_all(QuotaBatch& batch) noexcept {
  NamesPutOff put_off;
  holds_of_batch_ = 0;
  const std::span<const uint32_t> round = batch.round();
  for (size_t first = 0; first < round.size(); first += CallGroup::calls_max) {
    const auto group = round.subspan(first, std::min(CallGroup::calls_max, round.size() - first));
    group_.prepare(batch, group, shard_);
    for (size_t place = 0; place < group.size(); ++place) {
      const uint32_t index = group[place];
      const QuotaCall& call = batch.calls[index];
      if (batch.pass == Pass::ask && put_off.puts_off(batch, index)) continue;
      if (first_place(call, batch.spread[index], shard_) == call.subjects_count) continue;
      clock_.next_call();
      if (batch.pass == Pass::look) {
        look(batch, index, group_.hashes(place));
      } else {
        ask(batch, index, group_.hashes(place));
        put_off.puts_off(batch, index);  // those behind it, if it awaits a verdict now
      }
    }
  }
}

// The batch's holds give way to charges all at once: an answer does not show those of calls behind
// its own.
void SpreadDecider::apply_all(QuotaBatch& batch) noexcept {
  for (const uint32_t index : batch.round()) {
    const SpreadCall& spread = batch.spread[index];
    if (!applies_verdict(batch.pass, batch.calls[index], spread, shard_)) continue;
    const uint32_t hold = spread.holds[first_place(batch.calls[index], spread, shard_)];
    if (hold == SpreadCall::without_hold) continue;
    reservations_.release(reservations_[hold]);
    reservations_.prefetch_id(spread.reservation);
  }
  for (const uint32_t index : batch.round()) {
    if (!applies_verdict(batch.pass, batch.calls[index], batch.spread[index], shard_)) continue;
    clock_.next_call();
    apply(batch, index);
  }
  server_.serve_marked();
}

// Nobody asks for these calls again.
void SpreadDecider::forget(QuotaBatch& batch) noexcept {
  for (const uint32_t index : batch.round()) {
    if (claims_.has_any()) batch.ended_claims |= claims_.remove(batch, index);
  }
}

void SpreadDecider::look(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  Part part{batch, static_cast<uint32_t>(index), shard_};
  if (!api::leaves_output_tokens(part.call)) return;
  uint8_t place = 0;
  const QuotaCode problem = resolver_.find_part(batch, part.call, part.spread, hashes,
                                                IfAbsent::only_find, part.limited, place);
  if (problem != QuotaCode::ok) return;  // ask() reports it
  part.spread.output_tokens = std::min(
      part.spread.output_tokens, resolver_.default_output_tokens(part.limited, part.call.amounts));
}

void SpreadDecider::ask(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  Part part{batch, static_cast<uint32_t>(index), shard_};
  const SpreadCall& spread = part.spread;
  if (spread.state != State::undecided) return;
  const bool had_claim = claims_.has_any() && claims_.remove(batch, index);
  if (fits(part, hashes)) {
    part.spread.fit_bits |= part.bit();
    hold(part);
  }
  const bool is_decided = spread.problem != QuotaCode::ok || spread.is_repeat || spread.awaits();
  if (api::may_wait(part.call) && !is_decided) joining_.take(part, origin_);
  if (spread.awaits()) {
    claims_.add(batch, index, part.request.named(), part.request.amounts);
  } else {
    batch.ended_claims |= had_claim;
  }
}

// Whether nothing is in the way of the part. If there is, the SpreadCall has it: a problem, a
// repeated id, a limit, or a verdict that is to be awaited.
bool SpreadDecider::fits(Part& part, const SubjectHashes& hashes) noexcept {
  if (part.spread.is_try) return waiter_fits(part);
  if (!find(part, hashes)) return false;
  part.request = resolver_.request_of_part(part.batch, part.call, part.spread, part.limited);
  if (is_behind_own(part) || find_repeat(part)) return false;
  return part.call.op == QuotaOp::record ? has_room(part) : limits_fit(part);
}

// The same for a waiter, whose request lies in the queues.
bool SpreadDecider::waiter_fits(Part& part) noexcept {
  forget_gone_waiter(part);
  if (!part.has_waiter()) {
    part.spread.problem = QuotaCode::owner_unreachable;
    part.spread.problem_place = part.place;
    return false;
  }
  Waiter& waiter = queues_[part.waiter()];
  waiter.is_out = false;
  part.request = waiter.request;
  part.limited = subjects_.limited_subjects(waiter.request.named());
  if (server_.is_denied(waiter, part.limited)) {
    part.spread.problem = QuotaCode::unknown_subject;
    return false;
  }
  count_limits(part);
  return limits_fit(part);
}

// The part of another node's waiter may have left its queues since it was looked up: that node was
// silent for long, or what was held for an earlier try counts as charged.
void SpreadDecider::forget_gone_waiter(Part& part) const noexcept {
  if (!part.spread.is_try || part.is_home()) return;
  const bool is_there = queues_.has_arrived_as(part.waiter(), part.batch.arrival_of(part.index));
  if (!is_there) part.spread.waiters[part.place] = api::no_waiter;
}

// The part's subjects and its request. False: they have a problem.
bool SpreadDecider::find(Part& part, const SubjectHashes& hashes) noexcept {
  SpreadCall& spread = part.spread;
  const IfAbsent if_absent = part.call.op == QuotaOp::check ? IfAbsent::only_find : IfAbsent::make;
  uint8_t place = 0;
  const QuotaCode problem =
      resolver_.find_part(part.batch, part.call, spread, hashes, if_absent, part.limited, place);
  if (problem != QuotaCode::ok) {
    if (spread.problem != QuotaCode::ok && spread.problem_place < place) return false;
    spread.problem = problem;
    spread.problem_place = place;
    return false;
  }
  count_limits(part);
  return true;
}

void SpreadDecider::count_limits(Part& part) noexcept {
  SpreadCall& spread = part.spread;
  spread.has_quota |= !part.limited.empty();
  for (const LimitedSubject& each : part.limited) {
    spread.limits_anything |= each.quota->limits_anything;
  }
}

// True: the call's id names an earlier one, and nothing else counts.
bool SpreadDecider::find_repeat(Part& part) noexcept {
  SpreadCall& spread = part.spread;
  const auto found = repeats_.find(part.request);
  if (!found) return false;
  if (repeats_.is_undecided(*found)) {
    set_awaits_others(spread);
    return true;
  }
  const QuotaCode code = repeats_.code(part.request, *found);
  // The home answers a repeat; other shards only notice another order of the subjects.
  if (code != QuotaCode::id_in_use && spread.home() != shard_) return was_charged(part);
  spread.is_repeat = true;
  api::QuotaAnswer& answer = part.batch.answers[part.index];
  if (part.call.op == QuotaOp::check) {
    answer.code = code;
  } else {
    repeats_.answer(part.request, answer);
  }
  if (api::admits(code)) spread.fit_bits |= part.bit();
  if (api::admits(code) && part.wants_all()) part.set_hold(SpreadCall::without_hold);
  return true;
}

// A part of a record or consume is remembered under its id. If its home has no such call, a crash
// came between the two: then the repeat charges what is missing, and not this part again.
bool SpreadDecider::was_charged(Part& part) noexcept {
  if (!api::charges_used(part.call.op)) return false;
  part.spread.charged_bits |= part.bit();
  part.spread.fit_bits |= part.bit();
  if (part.wants_all()) part.set_hold(SpreadCall::without_hold);
  return true;
}

bool SpreadDecider::limits_fit(Part& part) noexcept {
  SpreadCall& spread = part.spread;
  const limiter::Shares shares = part.request.shares();
  const limiter::Moment& now = clock_.moment();
  const bool must_wait = this->must_wait(part);
  if (!must_wait && subjects_fit(part.limited, shares, now)) {
    return !overtakes_beside_holds(part) && !is_behind_claims(part, shares) && has_room(part);
  }
  if (awaits_verdict(part, shares, must_wait)) return false;
  part.limited = without_holds(part.limited);  // they are not what is in its way
  Obstacle obstacle = find_obstacle(part.limited, shares, now);
  // Only holds are in its way here: another shard refuses it for good.
  if (obstacle.code == QuotaCode::ok && !must_wait) return false;
  note_unfit(part, obstacle.fits_at_ns);
  if (obstacle.code == QuotaCode::ok) {
    server_.set_queue_ahead(obstacle, part.limited);
    spread.queue_fits_at_ns = std::max(spread.queue_fits_at_ns, obstacle.fits_at_ns);
  } else {
    Obstacle worst{
        .code = spread.code, .fits_at_ns = spread.fits_at_ns, .earliest_ns = spread.earliest_ns};
    add(obstacle, worst);
    spread.code = worst.code;
    spread.fits_at_ns = worst.fits_at_ns;
    spread.earliest_ns = worst.earliest_ns;
  }
  report(part, true);
  return false;
}

// A part that does not fit: whether the verdicts on other calls may change that, or its answer.
bool SpreadDecider::awaits_verdict(Part& part, const limiter::Shares& shares,
                                   bool must_wait) noexcept {
  const AwaitedVerdict awaited = awaited_verdict(part.limited, shares, part.batch, clock_.moment());
  if (awaited == AwaitedVerdict::none || is_refused_for_good(part, shares)) return false;
  if (awaited == AwaitedVerdict::own_batch) {
    part.spread.awaits_own = true;
    return true;
  }
  if (must_wait && !queues_.wait_for_holds(part.limited)) return false;
  set_awaits_others(part.spread);
  return true;
}

// Whatever the verdicts on other calls are. Where its answer shows limits, it still has to await
// them.
bool SpreadDecider::is_refused_for_good(const Part& part,
                                        const limiter::Shares& shares) const noexcept {
  if (part.wants_all() || part.wants_violated()) return false;
  const auto is_final = [](QuotaCode code) {
    return code != QuotaCode::ok && !api::may_retry(code);
  };
  if (is_final(part.spread.code)) return true;
  return is_final(find_obstacle(without_holds(part.limited), shares, clock_.moment()).code);
}

// An earlier call of the same connection is undecided, and shares a subject.
bool SpreadDecider::is_behind_own(Part& part) noexcept {
  if (!claims_.has_any()) return false;
  if (!claims_.has_earlier_of_asker(part.batch, part.index, part.request.named())) return false;
  set_awaits_others(part.spread);
  return true;
}

// A part that fits: whether it takes what an earlier call claims.
bool SpreadDecider::is_behind_claims(Part& part, const limiter::Shares& shares) noexcept {
  if (!claims_.has_any()) return false;
  const bool leaves_place = !part.needs_hold() || claims_.leave_place(part.batch, part.index);
  if (leaves_place &&
      claims_.leave_room(part.batch, part.index, part.limited, shares, clock_.moment())) {
    return false;
  }
  set_awaits_others(part.spread);
  return true;
}

// One that is about to overtake waiters where others hold something: these may use up what may
// overtake.
bool SpreadDecider::overtakes_beside_holds(Part& part) noexcept {
  const bool overtakes = !part.spread.is_try || !queues_.heads_all(part.waiter());
  if (!overtakes || !queues_.wait_for_holds(part.limited)) return false;
  const bool is_behind_own =
      std::any_of(part.limited.begin(), part.limited.end(), [&](const LimitedSubject& each) {
        return each.held != nullptr && each.held->last_batch == &part.batch;
      });
  if (is_behind_own) {
    part.spread.awaits_own = true;
  } else {
    set_awaits_others(part.spread);
  }
  return true;
}

// A waiter that is tried does not wait for itself, nor for those that it may overtake.
bool SpreadDecider::must_wait(Part& part) noexcept {
  return part.spread.is_try ? !queues_.may_overtake(part.waiter())
                            : queues_.must_wait(part.limited, part.batch.arrival_of(part.index));
}

// A part of a waiter that does not fit any more reports again when it does.
void SpreadDecider::note_unfit(Part& part, int64_t fits_at_ns) noexcept {
  if (!part.spread.is_try) return;
  queues_[part.waiter()].has_reported = false;
  // Those ahead of it are about to be served: its wait limit does not cut that short.
  if (part.spread.late_tries < late_tries_max && queues_.is_to_be_tried(queues_[part.waiter()])) {
    part.spread.is_last_try = false;
  }
  if (queues_.may_overtake(part.waiter()) && fits_at_ns != base::never_ns) {
    queues_.wake_at(part.waiter(), fits_at_ns);
  }
}

// Whether there is a place for the hold. One that another has may be free after its verdict.
bool SpreadDecider::has_room(Part& part) noexcept {
  if (!part.needs_hold() || reservations_.has_room()) return true;
  if (holds_of_batch_ > 0) {
    part.spread.awaits_own = true;
  } else if (subjects_.holds().has_any()) {
    set_awaits_others(part.spread);
  } else {
    part.spread.reservations_full = true;
    note_unfit(part, clock_.ns() + retry_place_ns);
  }
  return false;
}

// The part is held, unless the call is refused already.
void SpreadDecider::hold(Part& part) noexcept {
  SpreadCall& spread = part.spread;
  if (part.call.op == QuotaOp::record && !part.needs_hold()) {
    for (const LimitedSubject& each : part.limited) {
      reservations_.keep(each.index);
      spread.kept_bits |= static_cast<uint8_t>(1U << each.place);
    }
    return part.set_hold(SpreadCall::without_hold);
  }
  const bool is_refused = spread.code != QuotaCode::ok || spread.problem != QuotaCode::ok ||
                          spread.is_repeat || spread.reservations_full ||
                          spread.queue_fits_at_ns > 0;
  if (part.call.op == QuotaOp::check || is_refused) {
    if (part.wants_all()) part.set_hold(SpreadCall::without_hold);
    return;
  }
  if (spread.is_try) part.request = queues_.take_request(part.waiter());
  if (spread.is_try && !part.is_home()) part.request.lifetime_ms = part.call.lifetime_ms;
  const bool takes_slot = part.call.op != QuotaOp::record;
  part.set_hold(reservations_.hold(part.request, part.home(), takes_slot, part.batch));
  ++holds_of_batch_;
  if (!part.is_home()) return;
  spread.reservation = reservations_[part.hold()].id;
  spread.lifetime_ms = part.request.lifetime_ms;
}

void SpreadDecider::set_awaits_others(SpreadCall& spread) const noexcept {
  spread.awaits_others = true;
  spread.awaits_at = shard_;
}

// Whether the batch's first call, which awaits a verdict here, would have to do so again.
void SpreadDecider::await(QuotaBatch& batch) noexcept {
  const std::span<const uint32_t> first = batch.round().first(1);
  holds_of_batch_ = 0;
  group_.prepare(batch, first, shard_);
  clock_.next_call();
  Part part{batch, first.front(), shard_};
  part.spread.awaits_others = false;
  fits(part, group_.hashes(0));
  batch.awaits_verdict = std::exchange(part.spread.awaits_others, true);
}

void SpreadDecider::apply(QuotaBatch& batch, size_t index) noexcept {
  Part part{batch, static_cast<uint32_t>(index), shard_};
  forget_gone_waiter(part);
  const SpreadCall& spread = part.spread;
  const uint32_t hold = part.hold();
  part.set_hold(SpreadCall::no_hold);
  // A part that does not fit was reported when the shard was asked.
  const bool reports = (spread.fit_bits & part.bit()) != 0 && shows_limits(batch, index);
  if (hold != SpreadCall::without_hold) {
    Reservation& held = reservations_[hold];
    part.request.amounts = held.amounts;
    part.request.cached_input_tokens = part.call.cached_input_tokens;
    part.limited = subjects_.limited_subjects(held.named());
    if (spread.state == State::admitted) {
      admit(part, held);
    } else {
      drop(part, held);
    }
  } else if (part.call.op == QuotaOp::record || reports) {
    find_unheld(part);
    const bool charges = part.call.op == QuotaOp::record && !part.is_charged() && part.is_kept();
    if (charges && spread.state == State::admitted) record(part);
  }
  if (part.has_waiter() && !spread.is_try) joining_.end(part);
  if (reports) report(part, false);
}

// The subjects of a part that nothing is held of.
void SpreadDecider::find_unheld(Part& part) noexcept {
  if (part.spread.is_try) {
    if (!part.has_waiter()) return;
    part.request = queues_[part.waiter()].request;
    part.limited = subjects_.limited_subjects(part.request.named());
    return;
  }
  SubjectHashes hashes;
  for (uint8_t place = 0; place < part.call.subjects_count; ++place) {
    if (part.spread.shards[place] != shard_) continue;
    hashes[place] = subjects_.hash(part.batch.subjects[part.call.first_subject + place]);
    const bool is_kept = (part.spread.kept_bits & 1U << place) != 0;
    if (is_kept) reservations_.unkeep(subjects_.find(hashes[place]));
  }
  uint8_t place = 0;
  resolver_.find_part(part.batch, part.call, part.spread, hashes, IfAbsent::only_find, part.limited,
                      place);
  part.request = resolver_.request_of_part(part.batch, part.call, part.spread, part.limited);
}

// A part of a waiter leaves its queues with the charge; the waiter itself has an outcome to wait
// for.
void SpreadDecider::admit(Part& part, Reservation& held) noexcept {
  if (part.spread.is_try && !part.is_home() && part.has_waiter()) {
    server_.count_overtaken(part.waiter());
    queues_.leave(part.waiter());
  }
  if (api::charges_used(part.call.op)) {
    record(part);
    remember(part, held);
  } else {
    open(part, held);
  }
  if (queues_.pool().used() == 0 || part.spread.is_try) return;
  if (part.call.op == QuotaOp::record) return;
  queues_.count_overtaking(part.limited, part.batch.arrival_of(part.index));
}

void SpreadDecider::open(Part& part, Reservation& held) noexcept {
  subjects_.touch(part.limited);
  roll_and_charge(part.limited, limiter::Shares(held.amounts), clock_.moment());
  reservations_.admit(held, {.id = part.spread.reservation,
                             .code = part.batch.answers[part.index].code,
                             .connection = part.call.binding,
                             .owner = part.call.owner});
}

// A call that was charged for good leaves a trace under the client's id only.
void SpreadDecider::remember(const Part& part, Reservation& held) noexcept {
  if (!held.client_id.is_set()) return reservations_.drop(held);
  reservations_.remember(
      held, {.id = part.spread.reservation, .code = part.batch.answers[part.index].code});
}

// There is no verdict yet, or the call is refused, or waits. Then the client's id is the waiter's.
void SpreadDecider::drop(Part& part, Reservation& held) noexcept {
  if (part.spread.state == State::undecided) {
    claims_.remove(part.batch, part.index);  // of a later round, if this verdict of a node is late
    claims_.add(part.batch, part.index, held.named(), held.amounts);
  }
  const NameHash id = held.client_id;
  const uint64_t request_hash = held.request_hash;
  queues_.mark(held.named());
  reservations_.drop(held);
  const bool waits = part.spread.is_try || part.spread.state == State::queued;
  if (part.has_waiter() && waits) queues_.give_id(part.waiter(), id, request_hash);
}

void SpreadDecider::record(Part& part) noexcept {
  subjects_.touch(part.limited);
  charge_used(part.limited, part.request.shares(), clock_.moment());
  if (part.call.op == QuotaOp::record && part.is_home()) ++statistics_.recorded;
}

// Reports the limits of this part, as the call demands them; `denies`: they are in its way.
void SpreadDecider::report(Part& part, bool denies) noexcept {
  if (!part.wants_all() && !part.wants_violated()) return;
  api::QuotaAnswer answer{.code = denies ? QuotaCode::queue_ahead : QuotaCode::ok};
  std::vector<api::LimitReport> reports;
  answer_limits(answer, reports, part.limited, part.request.shares(),
                part.wants_all() ? ReportedLimits::all : ReportedLimits::violated, sources());
  for (const api::LimitReport& limit : reports) {
    if (part.batch.part_reports.size() == limits::quota_reports_max) {
      part.batch.answers[part.index].limits_left_out = true;
      return;
    }
    const auto number = static_cast<uint32_t>(&limit - reports.data());
    part.batch.part_reports.push_back({.call = part.index, .number = number, .limit = limit});
  }
}

}  // namespace sluice::quota
