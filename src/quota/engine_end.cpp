// How reservations end: settled, cancelled, expired, and at last forgotten.
#include <algorithm>

#include "base/assert.hpp"
#include "quota/answer_holders.hpp"
#include "quota/engine.hpp"
#include "quota/reservation_charges.hpp"

namespace sluice::quota {

using api::Amounts;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

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

// To another connection than the one that its answer did not reach: asked under its client's id it
// is told, until its lifetime ends; a connection-bound one, until its connection does.
bool may_be_known(const Reservation& reservation) noexcept {
  const bool has_client_id = reservation.id_request != 0;
  return has_client_id && (reservation.repeated || !reservation.is_connection_bound());
}

}  // namespace

void Engine::settle(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = reservations_.find(call.reservation);
  if (reservation == nullptr || reservation->has_ended()) {
    return answer_ended(ReservationState::settled, answer);
  }
  replace(*reservation, actual_amounts(call, reservation->amounts), call.cached_input_tokens);
  ++statistics_.settled;
  answer_ending(*reservation, ReservationState::settled, answer);
}

void Engine::cancel(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = reservations_.find(call.reservation);
  if (reservation == nullptr || reservation->has_ended()) {
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
  answer.late = reservation.has_expired();
  answer.amounts = reservation.amounts;
  queues_.mark(reservation.named());  // its end may help those who wait
  reservations_.end(reservation, state);
  server_.serve_marked();
}

// It ended before, or is unknown. The same end again has the same answer.
void Engine::answer_ended(ReservationState wanted, QuotaAnswer& answer) noexcept {
  const std::optional<IdRecord> ended = reservations_.find_record(answer.reservation);
  if (!ended) {
    answer.code = QuotaCode::unknown_reservation;
    return;
  }
  answer_record(*ended, answer);
  if (ended->state == wanted) {
    answer.code = QuotaCode::ok;
  } else {
    answer.code = ended->state == ReservationState::settled ? QuotaCode::already_settled
                                                            : QuotaCode::already_cancelled;
  }
}

void Engine::extend(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  Reservation* const reservation = reservations_.find(call.reservation);
  if (reservation == nullptr || reservation->has_ended()) {
    return answer_ended(ReservationState::none, answer);
  }
  answer.state = reservation->state;
  if (reservation->state == ReservationState::expired) {
    answer.code = QuotaCode::already_expired;
    return;
  }
  reservations_.extend(*reservation, call.lifetime_ms);
  answer.code = QuotaCode::ok;
  answer.lifetime_ms = reservation->lifetime_ms;
}

void Engine::replace(Reservation& reservation, const Amounts& actual, uint64_t cached) noexcept {
  const uint64_t before = reservation.amounts.input_tokens + reservation.amounts.output_tokens;
  const uint64_t after = actual.input_tokens + actual.output_tokens;
  statistics_.tokens_refunded += before > after ? before - after : 0;
  replace_charges(reservation, actual, cached, subjects_, clock_.moment());
}

// Its lifetime has ended: its slots are free, and its charge stays or is refunded.
void Engine::expire(Reservation& reservation) noexcept {
  budget_.spend(reservation.subjects_count);
  ++statistics_.expired;
  close_expired_charges(reservation, subjects_, clock_.moment());
  queues_.mark(reservation.named());  // its end may help those who wait
  reservations_.expire(reservation);
}

void Engine::end_lifetime(Reservation& reservation) noexcept {
  if (reservation.state == ReservationState::open) {
    expire(reservation);
  } else {
    reservations_.forget(reservation);
  }
}

void Engine::end_connection(uint64_t connection) noexcept {
  if (!reservations_.bindings().end(connection)) return;
  expire_bound();
  server_.serve_marked();
}

// A connection may have bound every reservation to itself: they end in slices.
void Engine::expire_bound() noexcept {
  while (budget_.may_go_on()) {
    Reservation* const reservation = reservations_.bindings().next_to_expire();
    if (reservation == nullptr) return;
    clock_.next_call();
    expire(*reservation);
  }
}

bool Engine::give_back(uint64_t id, base::Now now) noexcept {
  clock_.begin(now);
  QuotaAnswer answer;
  cancel({.op = QuotaOp::cancel, .flags = api::quota_flag::untold, .reservation = id}, answer);
  return answer.code == QuotaCode::ok;
}

}  // namespace sluice::quota
