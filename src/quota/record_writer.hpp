// Writes the records of subjects and reservations, as they are.
// Flow:   begin() at a cut -> a place of a pool -> state::StateSink, and the mark in the object
//         that it has a record. The class of a quota goes first, once a lap.
// Errors: none: the sink has room.
// Lives:  one thread only; the sink until the next begin(). The text of a class is made on the
//         heap, when no record since the present lap began has needed it yet.
#pragma once

#include <cstdint>

#include "quota/change_log.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"
#include "state/state_sink.hpp"

namespace sluice::quota {

class RecordWriter {
 public:
  RecordWriter(SubjectTable& subjects, ReservationBook& reservations, ChangeLog& log) noexcept
      : subjects_(subjects), reservations_(reservations), log_(log) {}

  // `resets`: of all subjects, before the cut.
  void begin(state::StateSink& sink, const SubjectTable::Resets& resets) noexcept {
    sink_ = &sink;
    resets_ = resets;
    records_count_ = 0;
  }
  // From now on each class is written anew.
  void begin_lap() noexcept { ++lap_; }

  void write_subject(SubjectIndex index) noexcept;
  void write_reservation(uint32_t index) noexcept;
  void write(const IdRecord& end) noexcept;
  void write(const ForgottenSubject& forgotten) noexcept;
  void write(const DepartedReservation& departed) noexcept;

  uint64_t records_count() const noexcept { return records_count_; }  // since begin()

 private:
  template <typename Record>
  void append(const Record& record) noexcept;
  uint64_t class_of(const CompiledQuota& quota) noexcept;
  state::ReservedSubject stored_form(SubjectIndex index) const noexcept;

  SubjectTable& subjects_;
  ReservationBook& reservations_;
  ChangeLog& log_;
  state::StateSink* sink_ = nullptr;
  SubjectTable::Resets resets_;
  uint64_t records_count_ = 0;
  uint32_t lap_ = 1;
};

}  // namespace sluice::quota
