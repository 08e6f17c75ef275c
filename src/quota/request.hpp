// The request of a call to reserve, in the store's own terms.
// Lives:  a value; a waiter keeps it until it is served.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

struct Request {
  api::Amounts amounts;
  NameHash id;  // of the client's id, and of its subjects' tag or names; zero: none
  // Of the amounts and the subjects' names: a repeat under the same id must have the same; 0: the
  // call has no id.
  uint64_t request_hash = 0;
  uint64_t connection = 0;  // with which the reservation ends; 0: none
  uint32_t lifetime_ms = 0;
  uint8_t subjects_count = 0;
  uint16_t route = 0;  // of the first subject's name, if that has no quota here
  std::array<SubjectIndex, limits::call_subjects_max> subjects{};  // no_subject: without a quota

  std::span<const SubjectIndex> named() const noexcept { return {subjects.data(), subjects_count}; }
};

}  // namespace sluice::quota
