// The limited subjects of a call: those of its subjects that have a quota, as the call finds them.
// Flow:   a call's names, or a waiter's subjects -> LimitedSubjects ->
//         limited_subject_meters, obstacle.
// Lives:  while one call is decided, or one waiter is tried; the words belong to the subjects.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>

#include "base/limits.hpp"
#include "limiter/meter_shape.hpp"
#include "quota/compiled_quota.hpp"
#include "quota/held_amounts.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

struct LimitedSubject {
  uint8_t place = 0;                // among the call's subjects
  SubjectIndex index = no_subject;  // no_subject: no state yet, and a check makes none
  const CompiledQuota* quota = nullptr;
  limiter::Words words;
  uint32_t open = 0;           // reservations that hold one of its slots
  const Held* held = nullptr;  // null: no call holds anything of it
};

using LimitedSubjects = boost::container::static_vector<LimitedSubject, limits::call_subjects_max>;

inline const LimitedSubjects no_limited_subjects;

// The hashes of the subjects that a call names, by their places in it.
using SubjectHashes = std::array<NameHash, limits::call_subjects_max>;

}  // namespace sluice::quota
