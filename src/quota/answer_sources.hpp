// What the answers to questions are read from (answer_limits, answer_subjects, answer_holders).
// Lives:  all of it belongs to the engine. Reading brings subjects to their present quota and rolls
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
