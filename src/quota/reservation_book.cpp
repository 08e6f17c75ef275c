#include "quota/reservation_book.hpp"

#include <algorithm>
#include <vector>

#include "base/assert.hpp"
#include "base/splitmix.hpp"

namespace sluice::quota {

using api::ReservationState;

namespace {

// Written in its place: copying it right after it was written would be slow.
void write(const Reservation& reservation, IdRecord& record) noexcept {
  record.id = reservation.id;
  record.state = reservation.state;
  record.admission = reservation.admission();
  record.late = reservation.has_ended() && reservation.has_expired();
  record.forgotten_ms = reservation.timer.due_ms();
  record.amounts = reservation.amounts;
}

}  // namespace

ReservationBook::ReservationBook(const Options& options, const CallClock& clock,
                                 SubjectTable& subjects, base::TimerWheel& wheel,
                                 OwnerNames& owners, ClientIds& client_ids, ChangeLog& log)
    : clock_(clock),
      subjects_(subjects),
      wheel_(wheel),
      owners_(owners),
      client_ids_(client_ids),
      log_(log),
      node_part_slack_ms_(options.node_part_slack_ms),
      pool_(options.reservations_max, "reservations (--max-reservations)"),
      ids_(options.reservations_max, options.id_seed ^ base::splitmix64(options.shard),
           options.node_slot),
      bindings_(options.reservations_max) {
  pool_.advise_huge();
}

Reservation& ReservationBook::open(const Request& request, api::QuotaCode admission,
                                   std::string_view owner) noexcept {
  Reservation& reservation = make(request, true);
  reservation.id = ids_.assign(index_of(reservation), route_of(request), false);
  begin(reservation, admission);
  begin_home(reservation, request.connection, owner);
  return reservation;
}

void ReservationBook::remember(const Request& request, api::QuotaCode admission) noexcept {
  end(open(request, admission, {}), ReservationState::settled);
}

void ReservationBook::remember(Reservation& held, const Admitted& admitted) noexcept {
  admit(held, admitted);
  if (held.is_part) {
    end_part(held, ReservationState::settled, held.lifetime_ms);
  } else {
    end(held, ReservationState::settled);
  }
}

// The reservation's id leads to its first subject's shard.
inline uint16_t ReservationBook::route_of(const Request& request) const noexcept {
  const SubjectIndex first = request.subjects[0];
  return is_here(first) ? subjects_[first].route : request.route;
}

inline Reservation& ReservationBook::make(const Request& request, bool is_open) noexcept {
  const Pool::Index index = take();
  Reservation& reservation = pool_[index];
  reservation.amounts = request.amounts;
  reservation.subjects_count = request.subjects_count;
  reservation.subjects = request.subjects;
  reservation.lifetime_ms = request.lifetime_ms;
  if (request.id.is_set()) {
    reservation.client_id = request.id;
    reservation.request_hash = request.request_hash;
    client_ids_.add(request.id, {.index = index});
  }
  for (uint8_t at = 0; at < request.subjects_count; ++at) {
    if (!is_here(request.subjects[at])) continue;
    Subject& subject = subjects_[request.subjects[at]];
    ++subject.held;
    if (is_open) ++subject.open;  // even without a quota by now: close() frees it
  }
  return reservation;
}

// It is charged now.
inline void ReservationBook::begin(Reservation& reservation, api::QuotaCode admission) noexcept {
  reservation.state = ReservationState::open;
  reservation.set_admission(admission);
  reservation.charged_ns = clock_.ns();
  reservation.order = clock_.order();
  log_.add(reservation, index_of(reservation));
}

// What only a home has: an owner, a connection, a place among the open ones.
inline void ReservationBook::begin_home(Reservation& home, uint64_t connection,
                                        std::string_view owner) noexcept {
  if (!owner.empty()) home.owner = owners_.keep(owner);
  if (connection != 0) bindings_.bind(home, connection);
  wheel_.schedule(home.timer, clock_.due_ms(home.lifetime_ms));
  ++open_count_;
}

ReservationBook::Pool::Index ReservationBook::hold(const Request& request, Home home,
                                                   bool takes_slot,
                                                   const api::QuotaBatch& batch) noexcept {
  Reservation& held = make(request, false);
  held.state = ReservationState::none;
  held.is_part = home != Home::here;
  held.has_home_at_other_node = home == Home::other_node;
  held.takes_slot = takes_slot;
  const Pool::Index index = index_of(held);
  const std::span<const SubjectIndex> named = held.named();
  if (home == Home::here) {
    held.has_parts = std::any_of(named.begin(), named.end(), is_remote);
    held.id = ids_.assign(index, route_of(request), held.has_parts);
  }
  for (const SubjectIndex subject : held.named()) {
    if (is_here(subject)) {
      subjects_.holds().add(subjects_[subject], held.amounts, takes_slot, &batch);
    }
  }
  return index;
}

void ReservationBook::release(const Reservation& held) noexcept {
  ASSERT(held.is_held());
  for (const SubjectIndex subject : held.named()) {
    if (is_here(subject)) {
      subjects_.holds().remove(subjects_[subject], held.amounts, held.takes_slot);
    }
  }
}

void ReservationBook::admit(Reservation& held, const Admitted& admitted) noexcept {
  if (held.is_part) {
    held.id = admitted.id;
    ids_.adopt(held.id, index_of(held));
  }
  for (const SubjectIndex subject : held.named()) {
    if (is_here(subject)) ++subjects_[subject].open;
  }
  begin(held, admitted.code);
  if (!held.is_part) return begin_home(held, admitted.connection, admitted.owner);
  if (!held.has_home_at_other_node) return;
  wheel_.schedule(held.timer, clock_.due_ms(held.lifetime_ms + node_part_slack_ms_));
}

void ReservationBook::drop(Reservation& held) noexcept {
  if (!held.is_part) ids_.forget(held.id, index_of(held));
  free(held);
}

// Forgets the one that ended first when all places are taken.
ReservationBook::Pool::Index ReservationBook::take() noexcept {
  if (pool_.used() == pool_.capacity()) forget(ended_.front());
  const Pool::Index index = pool_.take(uint64_t{0});
  pool_[index].timer.owner = TimerTag{TimerTag::lifetime, index}.bits();
  pool_.prefetch_next();
  return index;
}

std::optional<IdRecord> ReservationBook::find_record(uint64_t id) const noexcept {
  if (const Reservation* const reservation = find(id)) return record_of(*reservation);
  const IdRecord* const record = ids_.find_end(id, clock_.ms());
  return record == nullptr ? std::nullopt : std::optional(*record);
}

IdRecord ReservationBook::record_of(const Reservation& reservation) noexcept {
  IdRecord record;
  write(reservation, record);
  return record;
}

void ReservationBook::extend(Reservation& reservation, uint32_t lifetime_ms) noexcept {
  DEBUG_ASSERT(reservation.state == ReservationState::open);
  touch(reservation);
  if (lifetime_ms != 0) reservation.lifetime_ms = lifetime_ms;
  wheel_.schedule(reservation.timer, clock_.due_ms(reservation.lifetime_ms));
}

void ReservationBook::extend_part(Reservation& part, uint32_t lifetime_ms) noexcept {
  DEBUG_ASSERT(part.has_home_at_other_node && part.state == ReservationState::open);
  touch(part);
  part.lifetime_ms = lifetime_ms;
  const int64_t due_ms = clock_.due_ms(lifetime_ms + node_part_slack_ms_);
  wheel_.schedule(part.timer, std::max(part.timer.due_ms(), due_ms));
}

void ReservationBook::end(Reservation& reservation, ReservationState state) noexcept {
  const bool was_open = reservation.state == ReservationState::open;
  close(reservation, state);
  if (!reservation.client_id.is_set()) {
    IdRecord& end = ids_.end(reservation.id, index_of(reservation));
    write(reservation, end);
    log_.end(reservation, index_of(reservation), ids_, end);
    free(reservation);
  } else if (was_open) {
    keep_ended(reservation);
  }
}

// In the order in which they are forgotten.
void ReservationBook::keep_ended(Reservation& reservation) noexcept {
  ended_.push_back(reservation);
  ++ended_count_;
}

void ReservationBook::end_part(Reservation& part, ReservationState state,
                               uint32_t left_ms) noexcept {
  ASSERT(part.is_part);
  const bool was_open = part.state == ReservationState::open;
  close(part, state);
  if (!part.client_id.is_set()) return forget(part);
  wheel_.schedule(part.timer, clock_.due_ms(left_ms));
  if (was_open) keep_ended(part);
}

void ReservationBook::expire(Reservation& reservation) noexcept {
  reservation.expired_order = clock_.order();
  if (reservation.client_id.is_set()) {
    // The lifetime is over in which a repeat under the client's id gets the same answer.
    client_ids_.remove(reservation.client_id, {.index = index_of(reservation)});
    reservation.client_id = {};
  }
  // A late settle finds it for one more lifetime. Another node, whose late settle that is, may not
  // reach this one for a while.
  const uint32_t longer_ms =
      reservation.has_home_at_other_node ? node_part_slack_ms_ + limits::repeats_ms_min : 0;
  wheel_.schedule(reservation.timer, clock_.due_ms(reservation.lifetime_ms + longer_ms));
  close(reservation, ReservationState::expired);
  keep_ended(reservation);
}

void ReservationBook::forget(Reservation& reservation) noexcept {
  const bool is_over = reservation.timer.due_ms() <= clock_.ms();
  log_.forget(reservation, index_of(reservation), is_over);
  ids_.forget(reservation.id, index_of(reservation));
  free(reservation);
}

uint64_t ReservationBook::reserved_bytes() const noexcept {
  return pool_.reserved_bytes() + ids_.reserved_bytes() + bindings_.reserved_bytes();
}

void ReservationBook::check_invariants() const noexcept {
  uint32_t open = 0;
  std::vector<uint32_t> open_of(subjects_.pool().index_end());
  std::vector<uint32_t> held_of(subjects_.pool().index_end());
  for (Pool::Index index = 0; index < pool_.index_end(); ++index) {
    if (!pool_.holds(index)) continue;
    const Reservation& reservation = pool_[index];
    const bool is_open = reservation.state == ReservationState::open;
    ASSERT(index_of(reservation) == index);
    if (!reservation.is_held()) {
      const bool has_timer = reservation.has_lifetime() || !is_open;
      ASSERT(reservation.timer.scheduled() == has_timer);
      ASSERT(find_index(reservation.id) == index);
      ASSERT(is_open || reservation.is_linked());
    }
    open += is_open && !reservation.is_part ? 1 : 0;
    for (uint8_t at = 0; at < reservation.subjects_count; ++at) {
      const SubjectIndex subject = reservation.subjects[at];
      if (!is_here(subject)) continue;
      ++held_of[subject];
      open_of[subject] += is_open ? 1 : 0;
    }
  }
  ASSERT(open == open_count_);
  ASSERT(ended_.size() == ended_count_);
  uint64_t kept = 0;
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    ASSERT(subjects_[index].held >= held_of[index] && subjects_[index].open == open_of[index]);
    kept += subjects_[index].held - held_of[index];
  }
  ASSERT(kept == kept_count_);
  bindings_.check_invariants();
}

}  // namespace sluice::quota
