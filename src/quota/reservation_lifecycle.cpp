#include "quota/reservation_lifecycle.hpp"

#include <algorithm>
#include <optional>

#include "quota/answer_holders.hpp"
#include "quota/reservation_charges.hpp"

namespace sluice::quota {

using api::Amounts;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::ReservationState;

namespace {

// The amounts that the call gives, else those that were reserved.
Amounts actual_amounts(const QuotaCall& call, const Amounts& reserved) noexcept {
  const auto pick = [&call](uint8_t bit, uint64_t given, uint64_t otherwise) {
    return (call.given_bits & bit) != 0 ? given : otherwise;
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

// Whether another connection than the one that missed its answer may know it: a repeat under the
// client's id gets the same answer until its lifetime ends, or, if it is connection-bound, its
// connection.
bool may_be_known(const Reservation& reservation) noexcept {
  const bool has_client_id = reservation.request_hash != 0;
  return has_client_id && (reservation.repeated || !reservation.is_connection_bound());
}

}  // namespace

// The reservation ended before, or is unknown. A repeated end has the same answer.
void ReservationLifecycle::answer_ended(ReservationState wanted,
                                        QuotaAnswer& answer) const noexcept {
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

// The call's reservation, if it is open or expired. Null: it has ended, or is unknown, and the
// answer is set.
inline Reservation* ReservationLifecycle::unended(Reservation* found, const QuotaCall& call,
                                                  ReservationState wanted,
                                                  QuotaAnswer& answer) noexcept {
  answer.reservation = call.reservation;
  if (found != nullptr && !found->has_ended()) return found;
  answer_ended(wanted, answer);
  return nullptr;
}

inline void ReservationLifecycle::replace(Reservation& reservation, const Amounts& actual,
                                          uint64_t cached, QuotaAnswer& answer) noexcept {
  const uint64_t before = reservation.amounts.input_tokens + reservation.amounts.output_tokens;
  const uint64_t after = actual.input_tokens + actual.output_tokens;
  statistics_.tokens_refunded += before > after ? before - after : 0;
  reservations_.touch(reservation);
  replace_charges(reservation, actual, cached, subjects_, clock_.moment());
  answer.amounts = actual;
}

// Ends the reservation, with the first answer to this end.
inline ReservationLifecycle::Ended ReservationLifecycle::end(Reservation& reservation,
                                                             ReservationState state,
                                                             QuotaAnswer& answer) noexcept {
  answer.code = QuotaCode::ok;
  answer.state = state;
  answer.late = reservation.has_expired();
  queues_.mark(reservation.named());  // its end may help waiters
  const bool has_parts = reservation.has_parts;
  if (has_parts) {
    ended_parts_ = shards_of_parts(reservation);
    left_ms_ = reservations_.lifetime_left_ms(reservation);
  }
  reservations_.end(reservation, state);
  return has_parts ? Ended::with_parts : Ended::whole;
}

ReservationLifecycle::PartShards ReservationLifecycle::shards_of_parts(
    const Reservation& reservation) noexcept {
  PartShards shards;
  for (const SubjectIndex subject : reservation.named()) {
    if (!is_remote(subject)) continue;
    const auto shard = shard_of_subject(subject);
    if (std::find(shards.begin(), shards.end(), shard) == shards.end()) shards.push_back(shard);
  }
  return shards;
}

void ReservationLifecycle::take_parts(uint32_t call, std::vector<api::PartEnd>& ends) {
  for (const api::ShardId shard : ended_parts_) {
    ends.push_back({.call = call, .shard = shard, .left_ms = left_ms_});
  }
}

void ReservationLifecycle::end_part(const QuotaCall& call, const QuotaAnswer& answer,
                                    uint32_t left_ms) noexcept {
  Reservation* const part = reservations_.find(call.reservation);
  if (part == nullptr || part->has_ended()) return;  // forgotten to make room
  reservations_.touch(*part);
  replace_charges(*part, answer.amounts, call.cached_input_tokens, subjects_, clock_.moment());
  queues_.mark(part->named());
  reservations_.end_part(*part, answer.state, left_ms);
}

bool ReservationLifecycle::expire_part(const QuotaCall& call, bool is_of_node) noexcept {
  Reservation* const part = reservations_.find(call.reservation);
  if (part == nullptr || part->state != ReservationState::open) return false;
  if (part->has_home_at_other_node != is_of_node) return false;
  reservations_.touch(*part);
  part->lifetime_ms = call.lifetime_ms + (is_of_node ? 0 : part_slack_ms);
  close_lifetime(*part);
  return true;
}

ReservationLifecycle::Ended ReservationLifecycle::settle(const QuotaCall& call,
                                                         ReservationBook::Pool::Index expected,
                                                         QuotaAnswer& answer) noexcept {
  Reservation* const reservation = unended(reservations_.find_at(expected, call.reservation), call,
                                           ReservationState::settled, answer);
  if (reservation == nullptr) return Ended::no;
  replace(*reservation, actual_amounts(call, reservation->amounts), call.cached_input_tokens,
          answer);
  ++statistics_.settled;
  return end(*reservation, ReservationState::settled, answer);
}

ReservationLifecycle::Ended ReservationLifecycle::cancel(const QuotaCall& call,
                                                         QuotaAnswer& answer) noexcept {
  Reservation* const reservation =
      unended(reservations_.find(call.reservation), call, ReservationState::cancelled, answer);
  if (reservation == nullptr) return Ended::no;
  if ((call.flags & api::quota_flag::undelivered) != 0 && may_be_known(*reservation)) {
    answer.code = QuotaCode::id_in_use;
    return Ended::no;
  }
  const bool keeps = (call.flags & api::quota_flag::keep_requests) != 0;
  replace(*reservation, {.requests = keeps ? reservation->amounts.requests : 0}, 0, answer);
  ++statistics_.cancelled;
  return end(*reservation, ReservationState::cancelled, answer);
}

// Null: it has ended or expired, or is unknown, and the answer is set.
Reservation* ReservationLifecycle::find_open(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  Reservation* const reservation =
      unended(reservations_.find(call.reservation), call, ReservationState::none, answer);
  if (reservation == nullptr) return nullptr;
  answer.state = reservation->state;
  answer.code =
      reservation->state == ReservationState::open ? QuotaCode::ok : QuotaCode::already_expired;
  return answer.code == QuotaCode::ok ? reservation : nullptr;
}

ReservationLifecycle::Ended ReservationLifecycle::extend(const QuotaCall& call,
                                                         QuotaAnswer& answer) noexcept {
  Reservation* const reservation = find_open(call, answer);
  if (reservation == nullptr) return Ended::no;
  if (reservation->has_parts) {
    ended_parts_ = shards_of_parts(*reservation);
    const auto end = std::remove_if(ended_parts_.begin(), ended_parts_.end(),
                                    [](api::ShardId stop) { return !api::is_node_stop(stop); });
    ended_parts_.erase(end, ended_parts_.end());
    left_ms_ = call.lifetime_ms != 0 ? call.lifetime_ms : reservation->lifetime_ms;
    if (!ended_parts_.empty()) return Ended::with_parts;
  }
  reservations_.extend(*reservation, call.lifetime_ms);
  answer.lifetime_ms = reservation->lifetime_ms;
  return Ended::no;
}

void ReservationLifecycle::finish_extend(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  Reservation* const reservation = find_open(call, answer);
  if (reservation == nullptr) return;
  reservations_.extend(*reservation, call.lifetime_ms);
  answer.lifetime_ms = reservation->lifetime_ms;
}

// The worst answer of all parts counts.
void ReservationLifecycle::extend_part(const QuotaCall& call, QuotaAnswer& answer) noexcept {
  Reservation* const part = reservations_.find(call.reservation);
  if (part == nullptr || !part->has_home_at_other_node) {
    if (answer.code == QuotaCode::none) answer.code = QuotaCode::unknown_reservation;
    return;
  }
  if (part->state != ReservationState::open) {
    answer.code = QuotaCode::already_expired;
    return;
  }
  reservations_.extend_part(*part, call.lifetime_ms);
  if (answer.code != QuotaCode::already_expired) answer.code = QuotaCode::ok;
}

bool ReservationLifecycle::end_part(const QuotaCall& call) noexcept {
  const Reservation* const part = reservations_.find(call.reservation);
  if (part == nullptr || !part->has_home_at_other_node) return false;
  const bool is_cancelled = (call.flags & api::quota_flag::cancels) != 0;
  const QuotaAnswer end{
      .state = is_cancelled ? ReservationState::cancelled : ReservationState::settled,
      .amounts = call.amounts};
  end_part(call, end, call.lifetime_ms);
  return true;
}

// Its lifetime has ended: frees its slots; its charge stays or is refunded.
void ReservationLifecycle::expire(Reservation& reservation) noexcept {
  budget_.spend(reservation.subjects_count);
  if (!reservation.is_part) ++statistics_.expired;
  if (reservation.has_parts) {
    for (const api::ShardId shard : shards_of_parts(reservation)) {
      outgoing_.push_back({.op = api::QuotaOp::expire_part,
                           .shard = shard,
                           .lifetime_ms = reservation.lifetime_ms,
                           .reservation = reservation.id});
    }
  }
  close_lifetime(reservation);
}

void ReservationLifecycle::close_lifetime(Reservation& reservation) noexcept {
  reservations_.touch(reservation);
  close_expired_charges(reservation, subjects_, clock_.moment());
  queues_.mark(reservation.named());  // its end may help waiters
  reservations_.expire(reservation);
}

void ReservationLifecycle::end_lifetime(Reservation& reservation) noexcept {
  if (reservation.state == ReservationState::open) {
    expire(reservation);
  } else {
    reservations_.forget(reservation);
  }
}

bool ReservationLifecycle::end_connection(uint64_t connection) noexcept {
  if (!reservations_.bindings().end(connection)) return false;
  expire_bound();
  return true;
}

bool ReservationLifecycle::end_if_bound(uint64_t reservation) noexcept {
  Reservation* const bound = reservations_.find(reservation);
  const bool is_open = bound != nullptr && bound->state == ReservationState::open;
  if (!is_open || !bound->is_connection_bound()) return false;
  clock_.next_call();
  expire(*bound);
  return true;
}

// A connection may have bound every reservation: they expire in slices.
void ReservationLifecycle::expire_bound() noexcept {
  while (budget_.may_go_on()) {
    Reservation* const reservation = reservations_.bindings().next_to_expire();
    if (reservation == nullptr) return;
    clock_.next_call();
    expire(*reservation);
  }
}

}  // namespace sluice::quota
