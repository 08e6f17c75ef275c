// The tables from which answer_limits, answer_subjects and answer_holders read.
// Lives:  the engine owns all of them. Reading brings subjects to their present quota and rolls
//         their meters, so the tables are not const; nothing else changes.
#pragma once

#include "quota/call_clock.hpp"
#include "quota/current_book.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

struct AnswerSources {
  const CallClock& clock;
  CurrentBook& book;
  SubjectTable& subjects;
  const ReservationBook& reservations;
};

}  // namespace sluice::quota
