#include "quota/change_log.hpp"

namespace sluice::quota {
namespace {

constexpr std::string_view of_subjects = "changes of subjects (--max-subjects)";
constexpr std::string_view of_reservations = "changes of reservations (--max-reservations)";

uint32_t places(const Options& options, uint32_t places_max) noexcept {
  return options.keeps_state ? places_max : 1;
}

}  // namespace

ChangeLog::ChangeLog(const Options& options)
    : is_on_(options.keeps_state),
      subjects_(places(options, options.subjects_max), of_subjects),
      reservations_(places(options, options.reservations_max), of_reservations),
      next_forgotten_(places(options, options.subjects_max), of_subjects),
      forgotten_(places(options, options.subjects_max), of_subjects),
      next_departed_(places(options, options.reservations_max), of_reservations),
      departed_(places(options, options.reservations_max), of_reservations) {}

void ChangeLog::touch_other(Subject& subject, SubjectIndex index) noexcept {
  copy_first(subject, index);
  subject.mark = live_mark_;
  subjects_.add(index);
}

void ChangeLog::touch_other(Reservation& reservation, uint32_t index) noexcept {
  if (is_frozen(reservation)) copier_->copy_reservation(index);
  reservation.mark = live_mark_;
  reservations_.add(index);
}

void ChangeLog::forget(const Subject& subject, SubjectIndex index) noexcept {
  if (!is_on_) return;
  copy_first(subject, index);
  if (is_live(subject)) subjects_.remove(index);
  if (subject.record == RecordMark::none) return;
  next_forgotten_.append({.name = subject.hash, .route = subject.route});
}

void ChangeLog::note_departed(const IdRecord& end) noexcept {
  next_departed_.append({.end = {.id = end.id,
                                 .state = end.state,
                                 .admission = end.admission,
                                 .late = end.late,
                                 .forgotten_ms = end.forgotten_ms,
                                 .amounts = end.amounts},
                         .is_remembered = true});
}

// If its last record is of this end, that ends with its time, too.
void ChangeLog::note_forgotten(const Reservation& reservation, uint32_t index,
                               bool is_over) noexcept {
  if (is_frozen(reservation)) copier_->copy_reservation(index);
  const bool has_changed = is_live(reservation);
  if (has_changed) reservations_.remove(index);
  if (reservation.record == RecordMark::none || (is_over && !has_changed)) return;
  next_departed_.append({.end = {.id = reservation.id}, .is_part = reservation.is_part});
}

void ChangeLog::begin_cut() noexcept {
  ++cut_;
  live_mark_ = live_mark_ == ChangeMark::odd_cut ? ChangeMark::even_cut : ChangeMark::odd_cut;
  subjects_.freeze();
  reservations_.freeze();
  forgotten_.clear();
  departed_.clear();
  std::swap(forgotten_, next_forgotten_);
  std::swap(departed_, next_departed_);
}

void ChangeLog::set_written(Subject& subject, SubjectIndex index) noexcept {
  if (is_frozen(subject)) subjects_.remove_frozen(index);
  subject.mark = ChangeMark::clean;
  subject.record = lap_mark_;
}

void ChangeLog::set_written(Reservation& reservation, uint32_t index) noexcept {
  if (is_frozen(reservation)) reservations_.remove_frozen(index);
  reservation.mark = ChangeMark::clean;
  reservation.record = lap_mark_;
}

void ChangeLog::set_restored(Subject& subject, SubjectIndex index) noexcept {
  if (!is_on_) return;
  subjects_.remove(index);
  subject.mark = ChangeMark::clean;
  subject.record = RecordMark::odd_lap;
}

void ChangeLog::set_restored(Reservation& reservation, uint32_t index) noexcept {
  if (!is_on_) return;
  reservations_.remove(index);
  reservation.mark = ChangeMark::clean;
  reservation.record = RecordMark::odd_lap;
}

uint64_t ChangeLog::reserved_bytes() const noexcept {
  return subjects_.reserved_bytes() + reservations_.reserved_bytes() +
         next_forgotten_.reserved_bytes() + forgotten_.reserved_bytes() +
         next_departed_.reserved_bytes() + departed_.reserved_bytes();
}

}  // namespace sluice::quota
