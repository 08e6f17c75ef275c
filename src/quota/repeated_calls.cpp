#include "quota/repeated_calls.hpp"

namespace sluice::quota {

using api::QuotaCode;

std::optional<ClientIds::Entry> RepeatedCalls::find(const Request& request) const noexcept {
  if (!request.id.is_set()) return std::nullopt;
  return client_ids_.find(request.id, [&](ClientIds::Entry entry) -> const NameHash& {
    return entry.is_waiter ? queues_[entry.index].request.id : reservations_[entry.index].client_id;
  });
}

bool RepeatedCalls::is_undecided(ClientIds::Entry found) const noexcept {
  if (found.is_waiter) return queues_[found.index].stage == Waiter::Stage::joining;
  return reservations_[found.index].is_held();
}

QuotaCode RepeatedCalls::code(const Request& request, ClientIds::Entry found) const noexcept {
  if (found.is_waiter) return QuotaCode::id_in_use;
  const Reservation& reservation = reservations_[found.index];
  return reservation.request_hash == request.request_hash ? reservation.admission()
                                                          : QuotaCode::id_in_use;
}

bool RepeatedCalls::answer(const Request& request, api::QuotaAnswer& answer) noexcept {
  const std::optional<ClientIds::Entry> found = find(request);
  if (!found) return false;
  answer.code = code(request, *found);
  if (answer.code == QuotaCode::id_in_use || request.is_used) return true;
  Reservation& reservation = reservations_[found->index];
  if (!reservation.repeated) {
    reservations_.touch(reservation);
    reservation.repeated = true;
  }
  answer.state = reservation.state;
  answer.reservation = reservation.id;
  answer.amounts = reservation.amounts;
  answer.lifetime_ms = reservations_.lifetime_left_ms(reservation);
  return true;
}

}  // namespace sluice::quota
