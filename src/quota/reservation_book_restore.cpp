// Reservations and ends as an earlier start has left them.
#include <algorithm>

#include "base/assert.hpp"
#include "quota/reservation_book.hpp"

namespace sluice::quota {

using api::ReservationState;

// One that has ended or expired goes before those that were restored earlier: their records are
// newer.
Reservation& ReservationBook::restore(const state::ReservationRecord& from,
                                      const Subjects& subjects, Role role) {
  const Pool::Index index = take();
  Reservation& made = pool_[index];
  const bool is_open = from.state == ReservationState::open;
  made.id = from.id;
  made.state = from.state;
  made.set_admission(from.admission);
  made.is_part = role == Role::part;
  made.has_home_at_other_node = made.is_part && from.has_home_at_other_node;
  made.repeated = from.is_repeated;
  made.refunded = from.refunded_bits;
  made.lifetime_ms = from.lifetime_ms;
  made.amounts = from.amounts;
  made.subjects_count = from.subjects_count;
  made.subjects = subjects;
  made.has_parts = role == Role::home && std::ranges::any_of(made.named(), is_remote);
  made.charged_ns = from.charged_ns;
  made.order = from.order;
  made.expired_order = from.expired_order;
  made.client_id = {.low = from.client_id.low, .high = from.client_id.high};
  made.request_hash = from.request_hash;
  if (made.client_id.is_set()) client_ids_.add(made.client_id, {.index = index});
  for (const SubjectIndex subject : made.named()) {
    if (!is_here(subject)) continue;
    ++subjects_[subject].held;
    if (is_open) ++subjects_[subject].open;
  }
  log_.add(made, index);
  if (!is_open) {
    ended_.push_front(made);
    ++ended_count_;
  }
  if (!made.has_lifetime() && is_open) return made;
  const bool outlives_home =
      made.is_part && !from.is_part && from.state == ReservationState::expired;
  wheel_.schedule(made.timer, from.due_ms + (outlives_home ? part_slack_ms : 0));
  if (made.is_part) return made;
  made.owner = owners_.keep(from.owner);
  if (is_open) ++open_count_;
  if (from.is_connection_bound && is_open) bindings_.bind(made, lost_connection);
  if (from.is_connection_bound && !is_open) made.binding = 0;  // whose it was, nobody asks
  return made;
}

void ReservationBook::adopt(Reservation& restored) noexcept {
  ids_.adopt(restored.id, index_of(restored));
}

void ReservationBook::add_parts(Reservation& home, const Subjects& subjects) noexcept {
  for (uint8_t place = 0; place < home.subjects_count; ++place) {
    if (home.subjects[place] == no_subject) home.subjects[place] = subjects[place];
  }
  home.has_parts = std::ranges::any_of(home.named(), is_remote);
}

bool ReservationBook::restore_end(const state::EndedReservation& from) noexcept {
  return ids_.restore_end({.id = from.id,
                           .state = from.state,
                           .admission = from.admission,
                           .late = from.late,
                           .recorded_in = log_.is_on() ? ChangeLog::restored_in : 0,
                           .forgotten_ms = from.forgotten_ms,
                           .amounts = from.amounts});
}

// Each had an order of its own: with the earliest one nothing is refunded to a later window than
// that of its charge.
void ReservationBook::merge(Reservation& into, Reservation& part) noexcept {
  ASSERT(into.state == part.state);
  touch(into);
  for (uint8_t place = 0; place < into.subjects_count; ++place) {
    if (!is_here(part.subjects[place]) || is_here(into.subjects[place])) continue;
    into.subjects[place] = part.subjects[place];
    part.subjects[place] = no_subject;
    into.refunded |= static_cast<uint8_t>(part.refunded & 1U << place);
  }
  part.record = RecordMark::none;  // the other one's is of both
  if (into.has_ended()) return;
  into.order = std::min(into.order, part.order);
  into.charged_ns = std::min(into.charged_ns, part.charged_ns);
}

void ReservationBook::discard(Reservation& part) noexcept {
  ASSERT(part.is_part);
  touch(part);
  close(part, ReservationState::cancelled);
  log_.forget(part, index_of(part), false);
  free(part);
}

}  // namespace sluice::quota
