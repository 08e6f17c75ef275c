// Knows which subjects and reservations have changed since the last cut of what survives a restart,
// and which the file may have a record of.
// Flow:   a call announces a change before it makes it: touch() -> the object is live, for the next
//         cut; begin_cut() -> it is frozen, until CutWriter has written it; then it is clean. A
//         frozen one is written before it changes, so that all records of a cut are as of its
//         instant.
// Shape:  marks in the objects, which calls have in the cache; a bit for each place of the two
//         pools; lists of those that had a record and are gone. What comes and goes between two
//         cuts leaves nothing.
// Errors: the constructor throws as MappedRegion does.
// Bounds: no list is longer than its pool was at the last cut: only what was there then can have a
//         record. Where nothing is kept, all memory is that of one place.
// Lives:  one thread only. Where nothing is kept, everything is live from birth on, and a change
//         that is announced costs a comparison of the mark.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "quota/append_list.hpp"
#include "quota/changed_places.hpp"
#include "quota/id_book.hpp"
#include "quota/quota_store.hpp"
#include "quota/reservation.hpp"
#include "quota/subject.hpp"
#include "state/record.hpp"

namespace sluice::quota {

// Writes the record of a frozen object that is about to change; then it is clean.
class CopyFirst {
 public:
  virtual void copy_subject(SubjectIndex index) noexcept = 0;
  virtual void copy_reservation(uint32_t index) noexcept = 0;

 protected:
  ~CopyFirst() = default;
};

// The name of a subject that had a record.
struct ForgottenSubject {
  NameHash name;
  uint16_t route = 0;
};

// A reservation that had a record and has no place any more.
struct DepartedReservation {
  state::EndedReservation end;  // how, if that is remembered
  bool is_remembered = false;
  bool is_part = false;
};

class ChangeLog {
 public:
  explicit ChangeLog(const Options& options);
  // What writes the records of a cut; it outlives the log's last change.
  void set_copier(CopyFirst& copier) noexcept { copier_ = &copier; }

  bool is_on() const noexcept { return is_on_; }

  // ---- subjects
  // It was made.
  void add(Subject& subject, SubjectIndex index) noexcept {
    subject.mark = live_mark_;
    if (is_on_) subjects_.add(index);
  }
  // Before anything changes that its record has.
  void touch(Subject& subject, SubjectIndex index) noexcept {
    if (!is_live(subject)) touch_other(subject, index);
  }
  // Before something may change: touch() follows if it does.
  bool has_frozen_subjects() const noexcept { return subjects_.has_frozen(); }
  void copy_first(const Subject& subject, SubjectIndex index) noexcept {
    if (is_frozen(subject)) copier_->copy_subject(index);
  }
  // Before it is forgotten.
  void forget(const Subject& subject, SubjectIndex index) noexcept;

  // ---- reservations
  // It is open from now on; before, it was a hold, or new.
  void add(Reservation& reservation, uint32_t index) noexcept {
    reservation.mark = live_mark_;
    if (is_on_) reservations_.add(index);
  }
  void touch(Reservation& reservation, uint32_t index) noexcept {
    if (!is_live(reservation)) touch_other(reservation, index);
  }
  // It loses its place, touched before, and `end` is remembered under its id.
  void end(const Reservation& reservation, uint32_t index, IdBook& ids, IdRecord& end) noexcept {
    if (!is_on_) return;
    DEBUG_ASSERT(is_live(reservation));
    reservations_.remove(index);
    const bool is_recorded = reservation.record != RecordMark::none;
    ids.set_recorded(end, is_recorded ? cut_ + 1 : 0);
    if (is_recorded) note_departed(end);
  }
  // It loses its place, and nothing of it is remembered. `is_over`: the time has passed until which
  // it would have been.
  void forget(const Reservation& reservation, uint32_t index, bool is_over) noexcept {
    if (is_on_) note_forgotten(reservation, index, is_over);
  }

  // ---- cuts
  // Whether anything has changed since the last one.
  bool has_changes() const noexcept {
    return subjects_.has_live() || reservations_.has_live() || next_forgotten_.size() > 0 ||
           next_departed_.size() > 0;
  }
  void begin_cut() noexcept;
  uint32_t cut() const noexcept { return cut_; }
  // All records that are written from now on are of another lap.
  void begin_lap() noexcept {
    lap_mark_ = lap_mark_ == RecordMark::odd_lap ? RecordMark::even_lap : RecordMark::odd_lap;
    first_cut_of_lap_ = cut_;
  }
  // Whether the file has a record that the present lap cannot do with, and no cut will write
  // another.
  template <typename Object>  // a subject or a reservation
  bool needs_lap(const Object& object) const noexcept {
    return object.mark == ChangeMark::clean && object.record != RecordMark::none &&
           object.record != lap_mark_;
  }
  bool needs_lap(const IdRecord& end) const noexcept {
    return end.recorded_in != 0 && end.recorded_in < first_cut_of_lap_;
  }

  // The cut has its record.
  void set_written(Subject& subject, SubjectIndex index) noexcept;
  void set_written(Reservation& reservation, uint32_t index) noexcept;
  // It was made from its record in the file.
  void set_restored(Subject& subject, SubjectIndex index) noexcept;
  void set_restored(Reservation& reservation, uint32_t index) noexcept;
  static constexpr uint32_t restored_in = 1;  // of ends; before the first cut

  // What the cut has to write.
  ChangedPlaces& subjects() noexcept { return subjects_; }
  ChangedPlaces& reservations() noexcept { return reservations_; }
  AppendList<ForgottenSubject>& forgotten() noexcept { return forgotten_; }
  AppendList<DepartedReservation>& departed() noexcept { return departed_; }

  uint64_t reserved_bytes() const noexcept;

 private:
  template <typename Object>  // a subject or a reservation
  bool is_live(const Object& object) const noexcept {
    return object.mark == live_mark_;
  }
  template <typename Object>
  bool is_frozen(const Object& object) const noexcept {
    return object.mark != live_mark_ && object.mark != ChangeMark::clean;
  }
  void touch_other(Subject& subject, SubjectIndex index) noexcept;
  void touch_other(Reservation& reservation, uint32_t index) noexcept;
  void note_departed(const IdRecord& end) noexcept;
  void note_forgotten(const Reservation& reservation, uint32_t index, bool is_over) noexcept;

  const bool is_on_;
  CopyFirst* copier_ = nullptr;
  uint32_t cut_ = restored_in;  // counts them
  uint32_t first_cut_of_lap_ = 0;
  ChangeMark live_mark_ = ChangeMark::odd_cut;
  RecordMark lap_mark_ = RecordMark::odd_lap;
  ChangedPlaces subjects_;
  ChangedPlaces reservations_;
  AppendList<ForgottenSubject> next_forgotten_;  // since the last cut
  AppendList<ForgottenSubject> forgotten_;       // before
  AppendList<DepartedReservation> next_departed_;
  AppendList<DepartedReservation> departed_;
};

}  // namespace sluice::quota
