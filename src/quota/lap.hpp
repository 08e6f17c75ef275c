// A lap over everything that lives: which subjects, reservations and remembered ends still need a
// record of it.
// Flow:   begin() -> next() until has_passed(); those that have changed meanwhile are the next
//         cut's -> end_cut() of that one.
// Shape:  the places of the subjects, then those of the reservations, then of the ends.
// Lives:  one thread only; what it returns is to be written before the next call.
#pragma once

#include <cstdint>
#include <span>

#include "quota/call_clock.hpp"
#include "quota/change_log.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class Lap {
 public:
  // passed_before: in an earlier cut than the last one.
  enum class Stage : uint8_t { none, subjects, reservations, ends, passed, passed_before };

  Lap(const CallClock& clock, const SubjectTable& subjects, const ReservationBook& reservations,
      const ChangeLog& log) noexcept
      : clock_(clock), subjects_(subjects), reservations_(reservations), log_(log) {}

  // In the cut of this epoch, before anything is written.
  void begin(uint64_t epoch) noexcept {
    stage_ = Stage::subjects;
    at_ = 0;
    epoch_ = epoch;
  }
  // A cut is complete; `is_whole`: it has everything that lives. True: so has the lap, with the
  // cuts since it began. What it skipped because it had changed is in the cut after the one in
  // which it passed it.
  bool end_cut(bool is_whole) noexcept;

  Stage stage() const noexcept { return stage_; }
  bool is_under_way() const noexcept { return stage_ != Stage::none; }
  bool has_passed() const noexcept { return stage_ >= Stage::passed; }
  uint64_t epoch() const noexcept { return epoch_; }

  // Fills in places of the present stage that need a record, and returns how many. Checks `checks`
  // places at most, and takes off those that it has checked. 0, with some left: the stage is over.
  size_t next(std::span<uint32_t> places, int64_t& checks) noexcept;

 private:
  template <typename Needs>
  size_t find(std::span<uint32_t> places, int64_t& checks, uint32_t end, Needs needs) noexcept;

  const CallClock& clock_;
  const SubjectTable& subjects_;
  const ReservationBook& reservations_;
  const ChangeLog& log_;
  Stage stage_ = Stage::none;
  uint32_t at_ = 0;  // the next place
  uint64_t epoch_ = 0;
};

}  // namespace sluice::quota
