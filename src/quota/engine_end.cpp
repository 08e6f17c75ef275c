// How reservations end: settled, cancelled, expired, and at last forgotten.
#include <algorithm>

#include "base/assert.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::Amounts;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// The actual amounts: what the call tells, else what was reserved.
Amounts actual_amounts(const QuotaCall& call, const Amounts& reserved) noexcept {
  const auto pick = [&call](uint8_t bit, uint64_t told, uint64_t else_) {
    return (call.told & bit) != 0 ? told : else_;
  };
  return {
      .requests = pick(api::given::requests, call.amounts.requests, reserved.requests),
      .input_tokens =
          pick(api::given::input_tokens, call.amounts.input_tokens, reserved.input_tokens),
      .output_tokens =
          pick(api::given::output_tokens, call.amounts.output_tokens, reserved.output_tokens),
      .cost = pick(api::given::cost, call.amounts.cost, reserved.cost),
  };
}

// Ties are counted up, and a core's stand in the upper bits: both tell in the upper half.
uint64_t tie_hash(uint64_t tie) noexcept {
  return (tie ^ tie >> 32) * 0x9E37'79B9'7F4A'7C15;
}

// For good: an expired one may still be settled.
bool has_ended(const Reservation& reservation) noexcept {
  return reservation.state == ReservationState::settled ||
         reservation.state == ReservationState::cancelled;
}

bool has_expired(const Reservation& reservation) noexcept {
  return reservation.expired_order != 0;
}

// To another connection than the one that its answer did not reach: asked under its client's id it
// is told, until its lifetime ends; when it is tied, until its connection does.
bool may_be_known(const Reservation& reservation) noexcept {
  const bool has_client_id = reservation.id_request != 0;
  return has_client_id && (reservation.told_again || !reservation.is_tied());
}

}  // namespace

void Engine::settle(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = find(call.reservation);
  if (reservation == nullptr || has_ended(*reservation)) {
    return answer_ended(ReservationState::settled, answer);
  }
  replace(*reservation, actual_amounts(call, reservation->amounts), call.cached_input_tokens);
  ++statistics_.settled;
  answer_ending(*reservation, ReservationState::settled, answer);
}

void Engine::cancel(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = find(call.reservation);
  if (reservation == nullptr || has_ended(*reservation)) {
    return answer_ended(ReservationState::cancelled, answer);
  }
  if ((call.flags & api::quota_flag::untold) != 0 && may_be_known(*reservation)) {
    answer.code = QuotaCode::id_in_use;
    return;
  }
  const bool keeps = (call.flags & api::quota_flag::keep_requests) != 0;
  replace(*reservation, {.requests = keeps ? reservation->amounts.requests : 0}, 0);
  ++statistics_.cancelled;
  answer_ending(*reservation, ReservationState::cancelled, answer);
}

// It ends now: the first answer.
void Engine::answer_ending(Reservation& reservation, ReservationState state,
                           QuotaAnswer& answer) noexcept {
  answer.code = QuotaCode::ok;
  answer.state = state;
  answer.late = has_expired(reservation);
  answer.amounts = reservation.amounts;
  end(reservation, state);
  serve_marked();
}

// It ended before, or is unknown. The same end again has the same answer.
void Engine::answer_ended(ReservationState wanted, QuotaAnswer& answer) noexcept {
  const std::optional<IdRecord> ended = find_record(answer.reservation);
  if (!ended) {
    answer.code = QuotaCode::unknown_reservation;
    return;
  }
  tell_record(*ended, answer);
  if (ended->state == wanted) {
    answer.code = QuotaCode::ok;
  } else {
    answer.code = ended->state == ReservationState::settled ? QuotaCode::already_settled
                                                            : QuotaCode::already_cancelled;
  }
}

std::optional<IdRecord> Engine::find_record(uint64_t id) noexcept {
  if (const Reservation* const reservation = find(id)) return record_of(*reservation);
  const IdRecord* const record = ids_.find(id, id_place(id), clock_.ms());
  return record == nullptr ? std::nullopt : std::optional(*record);
}

IdRecord Engine::record_of(const Reservation& reservation) noexcept {
  IdRecord record;
  write(reservation, record);
  return record;
}

// In its place: what is copied right after it was written takes long to read.
void Engine::write(const Reservation& reservation, IdRecord& record) noexcept {
  record.id = reservation.id;
  record.reservation = IdRecord::ended;
  record.state = reservation.state;
  record.admission = reservation.admission;
  record.late = has_ended(reservation) && has_expired(reservation);
  record.forgotten_ms = reservation.timer.due_ms();
  record.amounts = reservation.amounts;
}

void Engine::extend(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = find(call.reservation);
  if (reservation == nullptr || has_ended(*reservation)) {
    return answer_ended(ReservationState::none, answer);
  }
  answer.state = reservation->state;
  if (reservation->state == ReservationState::expired) {
    answer.code = QuotaCode::already_expired;
    return;
  }
  if (call.lifetime_ms != 0) reservation->lifetime_ms = call.lifetime_ms;
  wheel_.schedule(reservation->timer, clock_.due_ms(reservation->lifetime_ms));
  answer.code = QuotaCode::ok;
  answer.lifetime_ms = reservation->lifetime_ms;
}

// Puts the actual amounts in the place of those that are charged: a surplus goes back to where it
// was charged, a deficit is charged now.
void Engine::replace(Reservation& reservation, const Amounts& actual, uint64_t cached) noexcept {
  const limiter::Shares reserved(reservation.amounts);
  const limiter::Shares used(actual, cached);
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    if (reservation.subjects[place] == no_subject) continue;
    Subject& subject = subjects_.current(reservation.subjects[place]);
    if (subject.quota == nullptr) continue;
    if (reservation.state != ReservationState::open) {
      replace_late(subject, reserved, used, reservation, place);
    } else if (subject.quota->slides) {
      replace_open<limiter::RingMeter>(subject, reserved, used, charge_of(reservation));
    } else {
      replace_open<Meter>(subject, reserved, used, charge_of(reservation));
    }
  }
  const uint64_t before = reservation.amounts.input_tokens + reservation.amounts.output_tokens;
  const uint64_t now = actual.input_tokens + actual.output_tokens;
  statistics_.tokens_refunded += before > now ? before - now : 0;
  reservation.amounts = actual;
}

// Where all limits slide their meters need not be told apart.
template <typename AnyMeter>
void Engine::replace_open(const Subject& subject, const limiter::Shares& reserved,
                          const limiter::Shares& used, const limiter::Charge& charge) noexcept {
  for (const MeterShape& shape : subject.quota->shapes) {
    const uint64_t before = reserved.of(shape);
    const uint64_t now = used.of(shape);
    AnyMeter(shape, subject.words)
        .close(before, now < before ? before - now : 0, charge, clock_.moment());
    if (now > before) charge_used(shape, subject.words, now - before, clock_.moment());
  }
}

// Of one that expired: nothing of it is open any more.
void Engine::replace_late(Subject& subject, const limiter::Shares& reserved,
                          const limiter::Shares& used, const Reservation& reservation,
                          uint8_t place) noexcept {
  const bool refunded = (reservation.refunded & (1U << place)) != 0;
  // A reset has forgotten what was no longer open: there is nothing to give back.
  const bool forgotten = reservation.expired_order < subject.reset_order;
  for (const MeterShape& shape : subject.quota->shapes) {
    const uint64_t charged = refunded ? 0 : reserved.of(shape);
    const uint64_t now = used.of(shape);
    if (now < charged && !forgotten) {
      Meter(shape, subject.words).close(0, charged - now, charge_of(reservation), clock_.moment());
    }
    if (now > charged) charge_used(shape, subject.words, now - charged, clock_.moment());
  }
}

// Frees its slots, if they are not free yet, and remembers it. Marks those whom it may help. Gone
// afterwards, but for one that expired or has an id of its client's.
void Engine::end(Reservation& reservation, ReservationState state) noexcept {
  const bool was_open = reservation.state == ReservationState::open;
  if (was_open) {
    --open_count_;
    if (reservation.is_tied()) untie(reservation);
    for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
      if (reservation.subjects[place] != no_subject) --subjects_[reservation.subjects[place]].open;
    }
  }
  reservation.state = state;
  mark_all(reservation);
  if (has_ended(reservation) && !reservation.client_id.is_set()) {
    forget(reservation, true);
  } else if (was_open) {
    ended_.push_back(reservation);
  }
}

// Its lifetime has ended. The charge stays, or comes back where the quota says so; the slot is
// free.
void Engine::expire(Reservation& reservation) noexcept {
  budget_.spend(reservation.subjects_count);
  ++statistics_.expired;
  reservation.expired_order = clock_.order();
  if (reservation.client_id.is_set()) {
    // Its client may ask again under the id: the lifetime in which it gets the same answer is over.
    id_index_.erase(reservation.client_id.low, index_of(reservation));
    reservation.client_id = {};
  }
  const limiter::Shares reserved(reservation.amounts);
  const limiter::Charge charge = charge_of(reservation);
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    if (reservation.subjects[place] == no_subject) continue;
    Subject& subject = subjects_.current(reservation.subjects[place]);
    if (subject.quota == nullptr) continue;
    const bool refunds = subject.quota->quota.refund_expired;
    if (refunds) reservation.refunded |= static_cast<uint8_t>(1U << place);
    for (const MeterShape& shape : subject.quota->shapes) {
      const uint64_t share = reserved.of(shape);
      Meter(shape, subject.words).close(share, refunds ? share : 0, charge, clock_.moment());
    }
  }
  // A settle that comes late finds it for as long again.
  wheel_.schedule(reservation.timer, clock_.due_ms(reservation.lifetime_ms));
  end(reservation, ReservationState::expired);
}

uint32_t Engine::find_tie(uint64_t tie) const noexcept {
  return tie_index_.find(tie_hash(tie), [&](uint32_t place) { return ties_[place].of == tie; });
}

// One that is made while its connection's tie ends joins those that end.
void Engine::tie_up(Reservation& reservation, uint64_t tie) noexcept {
  uint32_t place = find_tie(tie);
  if (place == HashIndex::none) {
    place = ties_.take(tie);
    ASSERT(place != ties_.none);  // there are no more than open reservations
    tie_index_.insert(tie_hash(tie), place);
  }
  reservation.tie = place;
  ties_[place].open.push_back(reservation);
}

// It ends; the last of them takes the tie with it.
void Engine::untie(Reservation& reservation) noexcept {
  reservation.unlink();
  const Tie& tie = ties_[reservation.tie];
  if (!tie.open.empty()) return;
  tie_index_.erase(tie_hash(tie.of), reservation.tie);
  ties_.give_back(reservation.tie);
}

void Engine::end_tie(uint64_t tie) noexcept {
  const uint32_t place = find_tie(tie);
  if (place == HashIndex::none) return;
  if (!ties_[place].is_linked()) ending_ties_.push_back(ties_[place]);
  end_ties();
  serve_marked();
}

// A connection may have tied every reservation to itself: they end in slices.
void Engine::end_ties() noexcept {
  while (!ending_ties_.empty() && budget_.may_go_on()) {
    clock_.next_call();
    expire(ending_ties_.front().open.front());
  }
}

// It has ended: all that stays of it is the record, or nothing.
void Engine::forget(Reservation& reservation, bool remembered) noexcept {
  DEBUG_ASSERT(reservation.state != ReservationState::open);
  const Index index = index_of(reservation);
  const IdBook::Place place = id_place(reservation.id);
  if (remembered) {
    write(reservation, ids_[place]);
  } else {
    ids_[place] = {};
  }
  ids_.end(place);
  if (reservation.client_id.is_set()) id_index_.erase(reservation.client_id.low, index);
  drop_owner(reservation.owner);
  for (uint8_t at = 0; at < reservation.subjects_count; ++at) {
    if (reservation.subjects[at] != no_subject) --subjects_[reservation.subjects[at]].held;
  }
  base::TimerWheel::cancel(reservation.timer);
  reservations_.give_back(index);
}

// When all places are taken, the one that ended first is forgotten.
Engine::Index Engine::take_reservation() noexcept {
  if (reservations_.used() == reservations_.capacity()) forget(ended_.front(), false);
  const Index index = reservations_.take(uint64_t{0});
  reservations_[index].timer.owner = timer_owner(lifetime_timer, index);
  reservations_.prefetch_next();
  return index;
}

void Engine::mark_all(const Reservation& reservation) noexcept {
  if (waiters_.used() == 0) return;
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    const SubjectIndex subject = reservation.subjects[place];
    if (subject != no_subject && subjects_[subject].has_line()) subjects_.to_serve().add(subject);
  }
}

bool Engine::give_back(uint64_t id, base::Now now) noexcept {
  clock_.begin(now);
  QuotaAnswer answer;
  cancel({.op = QuotaOp::cancel, .flags = api::quota_flag::untold, .reservation = id}, answer);
  return answer.code == QuotaCode::ok;
}

}  // namespace sluice::quota
