#include "quota/reservation_restorer.hpp"

#include <algorithm>

#include "base/splitmix.hpp"
#include "proto/reservation_id.hpp"
#include "quota/reservation_charges.hpp"

namespace sluice::quota {

using api::ReservationState;
using state::EndedReservation;
using state::GoneReservation;
using state::ReservationRecord;
using state::ReservedSubject;
using Where = ReservedSubject::Where;

size_t ReservationRestorer::HashOfThing::operator()(const Thing& thing) const noexcept {
  return (thing.id ^ uint64_t{thing.shard} << 1 ^ uint64_t{thing.is_part}) *
             base::splitmix64_step >>
         16;
}

bool ReservationRestorer::Records::take(const state::StoredRecord& record,
                                        const RecordOrigin& origin) {
  if (const auto* const reservation = std::get_if<ReservationRecord>(&record)) {
    if (reservation->is_part) {
      restorer.take_part(*reservation, origin.shard);
    } else {
      restorer.take_home(*reservation);
    }
  } else if (const auto* const end = std::get_if<EndedReservation>(&record)) {
    restorer.take_end(*end);
  } else if (const auto* const gone = std::get_if<GoneReservation>(&record)) {
    const uint16_t shard = gone->is_part ? origin.shard : uint16_t{0};
    restorer.past_.insert({.id = gone->id, .shard = shard, .is_part = gone->is_part});
  }
  return true;
}

bool ReservationRestorer::Homes::take(const state::StoredRecord& record,
                                      const RecordOrigin& /*origin*/) {
  using Says = Home::Says;
  if (const auto* const reservation = std::get_if<ReservationRecord>(&record)) {
    if (!reservation->is_part) restorer.set_home(reservation->id, home_of(*reservation));
  } else if (const auto* const end = std::get_if<EndedReservation>(&record)) {
    restorer.set_home(end->id, {.says = Says::ended,
                                .end = end->state,
                                .amounts = end->amounts,
                                .due_ms = end->forgotten_ms});
  } else if (const auto* const gone = std::get_if<GoneReservation>(&record)) {
    if (!gone->is_part) restorer.set_home(gone->id, {.says = Says::unknown});
  }
  return true;
}

ReservationRestorer::Home ReservationRestorer::home_of(const ReservationRecord& record) noexcept {
  Home home{.end = record.state,
            .amounts = record.amounts,
            .lifetime_ms = record.lifetime_ms,
            .due_ms = record.due_ms};
  if (record.has_ended()) {
    home.says = Home::Says::ended;
  } else {
    home.says = record.state == ReservationState::open ? Home::Says::open : Home::Says::expired;
  }
  return home;
}

// The newest record counts.
void ReservationRestorer::set_home(uint64_t id, const Home& home) {
  const auto [begin, end] = pieces_of_.equal_range(id);
  for (auto at = begin; at != end; ++at) {
    Home& known = pieces_[at->second].home;
    if (known.says == Home::Says::nothing_yet) known = home;
  }
}

// ---- which shard it belongs to -----------------------------------------------------------------

bool ReservationRestorer::is_home_here(uint64_t id) const noexcept {
  return proto::reservation_shard(id, options_.shards) == options_.shard;
}

bool ReservationRestorer::is_here(const ReservedSubject& subject) const noexcept {
  return subject.where == Where::here &&
         proto::shard_of_route(subject.key.route, options_.shards) == options_.shard;
}

bool ReservationRestorer::has_any_here(const ReservationRecord& record) const noexcept {
  return std::any_of(record.named().begin(), record.named().end(),
                     [this](const ReservedSubject& subject) { return is_here(subject); });
}

SubjectIndex ReservationRestorer::find(const ReservedSubject& subject) const noexcept {
  return subjects_.find({.low = subject.key.name.low, .high = subject.key.name.high});
}

ReservationRestorer::Subjects ReservationRestorer::subjects_here(
    const ReservationRecord& record) const noexcept {
  Subjects subjects;
  subjects.fill(no_subject);
  for (uint8_t place = 0; place < record.subjects_count; ++place) {
    if (is_here(record.subjects[place])) subjects[place] = find(record.subjects[place]);
  }
  return subjects;
}

// This start may have another list. A part on a node that it does not have ends with its lifetime.
bool ReservationRestorer::is_other_node(uint32_t node) const noexcept {
  return node < options_.nodes_count &&
         proto::reservation_id::slot_of_node(node) != options_.node_slot;
}

ReservationRestorer::Subjects ReservationRestorer::subjects_of_home(
    const ReservationRecord& record) const noexcept {
  Subjects subjects = subjects_here(record);
  for (uint8_t place = 0; place < record.subjects_count; ++place) {
    const ReservedSubject& subject = record.subjects[place];
    if (subject.where == Where::here && !is_here(subject)) {
      const uint32_t shard = proto::shard_of_route(subject.key.route, options_.shards);
      subjects[place] = subject_of_shard(static_cast<api::ShardId>(shard));
    }
    if (subject.where == Where::other_shard && !has_other_shards_) {
      subjects[place] = subject_of_shard(subject.shard);
    }
    if (subject.where == Where::other_node && is_other_node(subject.node)) {
      subjects[place] = subject_of_shard(api::stop_of_node(subject.node));
    }
  }
  return subjects;
}

bool ReservationRestorer::is_over(const ReservationRecord& record) const noexcept {
  return record.state != ReservationState::open && record.due_ms <= clock_.ms();
}

bool ReservationRestorer::has_room() noexcept {
  if (reservations_.pool().used() < reservations_.pool().capacity()) return true;
  ++left_out_count_;
  return false;
}

bool ReservationRestorer::is_known(const Thing& thing) const {
  if (past_.contains(thing)) return true;
  const auto [begin, end] = pieces_of_.equal_range(thing.id);
  return std::any_of(begin, end, [&](const auto& at) { return pieces_[at.second].of == thing; });
}

// ---- records -----------------------------------------------------------------------------------

void ReservationRestorer::take_home(const ReservationRecord& record) {
  const Thing thing{.id = record.id};
  if (is_home_here(record.id)) {
    if (!past_.contains(thing) && !reservations_.find_record(record.id)) restore_home(record);
    return;
  }
  if (!has_other_shards_ || is_known(thing)) return;
  if (!is_over(record) && has_any_here(record) && has_room()) {
    return add_piece(record, thing, home_of(record));
  }
  past_.insert(thing);
}

void ReservationRestorer::restore_home(const ReservationRecord& record) {
  if (is_over(record) || !has_room()) {
    past_.insert({.id = record.id});
    return;
  }
  Reservation& made =
      reservations_.restore(record, subjects_of_home(record), ReservationBook::Role::home);
  reservations_.adopt(made);
  reservations_.set_restored(made);
}

void ReservationRestorer::take_part(const ReservationRecord& record, uint16_t shard) {
  const Thing thing{.id = record.id, .shard = shard, .is_part = true};
  if (has_other_shards_) {
    if (!record.has_home_at_other_node && is_home_here(record.id)) note_shards(record);
  } else if (shard != options_.shard) {
    return;
  }
  if (is_known(thing)) return;
  if (is_over(record) || !has_any_here(record) || !has_room()) {
    past_.insert(thing);
    return;
  }
  add_piece(record, thing, {});
}

void ReservationRestorer::add_piece(const ReservationRecord& record, const Thing& of,
                                    const Home& home) {
  Reservation& made =
      reservations_.restore(record, subjects_here(record), ReservationBook::Role::part);
  reservations_.set_restored(made);
  pieces_of_.emplace(record.id, pieces_.size());
  pieces_.push_back({.of = of, .index = reservations_.index_of(made), .home = home});
}

// The subjects of a part go to shards that its home has to know.
void ReservationRestorer::note_shards(const ReservationRecord& part) {
  const auto [at, is_new] = shards_of_.try_emplace(part.id);
  Subjects& subjects = at->second;
  if (is_new) subjects.fill(no_subject);
  for (uint8_t place = 0; place < part.subjects_count; ++place) {
    const ReservedSubject& subject = part.subjects[place];
    if (subject.where != Where::here) continue;
    const uint32_t shard = proto::shard_of_route(subject.key.route, options_.shards);
    if (shard == options_.shard) continue;
    subjects[place] = subject_of_shard(static_cast<api::ShardId>(shard));
  }
}

void ReservationRestorer::take_end(const EndedReservation& end) {
  if (!is_home_here(end.id)) {
    if (has_other_shards_) past_.insert({.id = end.id});
    return;
  }
  if (past_.contains({.id = end.id}) || reservations_.find_record(end.id)) return;
  const bool is_remembered = end.forgotten_ms > clock_.ms() && reservations_.restore_end(end);
  if (is_remembered) {
    ++ends_count_;
  } else {
    past_.insert({.id = end.id});
  }
}

// ---- parts -------------------------------------------------------------------------------------

void ReservationRestorer::finish() noexcept {
  for (const auto& [id, subjects] : shards_of_) {
    Reservation* const home = reservations_.find(id);
    if (home == nullptr) continue;
    reservations_.add_parts(*home, subjects);
  }
  for (Piece& piece : pieces_) settle(piece);
  reservations_.expire_lost_connections();
}

void ReservationRestorer::settle(Piece& piece) noexcept {
  using Says = Home::Says;
  Reservation& part = reservations_[piece.index];
  if (part.has_home_at_other_node) return keep(part);  // no record says what has become of its home
  const Home& home = piece.home;
  switch (home.says) {
    case Says::nothing_yet:
    case Says::unknown:
      if (part.state == ReservationState::open) return refund(part);
      return keep(part);  // it stays a little longer than its home
    case Says::open:
      return keep(part);
    case Says::expired:
      if (part.state == ReservationState::open) expire(part, home);
      return keep(part);
    case Says::ended:
      break;
  }
  if (part.has_ended()) return keep(part);
  reservations_.touch(part);
  replace_charges(part, home.amounts, 0, subjects_, clock_.moment());
  const int64_t left_ms = home.due_ms - clock_.ms();
  const bool is_needed =
      left_ms > 0 && !is_home_here(part.id) && reservations_.find(part.id) == nullptr;
  if (!is_needed) return reservations_.discard(part);
  reservations_.adopt(part);
  reservations_.end_part(part, home.end, static_cast<uint32_t>(left_ms));
}

void ReservationRestorer::refund(Reservation& part) noexcept {
  ++refunded_count_;
  reservations_.touch(part);
  replace_charges(part, {.requests = 0}, 0, subjects_, clock_.moment());
  reservations_.discard(part);
}

void ReservationRestorer::expire(Reservation& part, const Home& home) noexcept {
  reservations_.touch(part);
  part.lifetime_ms = home.lifetime_ms + part_slack_ms;
  close_expired_charges(part, subjects_, clock_.moment());
  reservations_.expire(part);
}

// The shard may have the home, or another part, in the meantime.
void ReservationRestorer::keep(Reservation& part) noexcept {
  Reservation* const other = reservations_.find(part.id);
  if (other == nullptr && (part.has_home_at_other_node || !is_home_here(part.id))) {
    reservations_.adopt(part);
  } else {
    if (other != nullptr && other->state == part.state) reservations_.merge(*other, part);
    reservations_.discard(part);
  }
}

}  // namespace sluice::quota
