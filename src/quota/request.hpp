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
  NameHash id;              // of the client's id and of its subjects' tag; zero: none
  uint64_t id_request = 0;  // a hash of all that the call asks for under the id
  uint64_t connection = 0;  // with which the reservation ends; 0: none
  uint32_t lifetime_ms = 0;
  uint8_t subjects_count = 0;
  std::array<SubjectIndex, limits::call_subjects_max> subjects{};  // no_subject: without a quota

  std::span<const SubjectIndex> named() const noexcept { return {subjects.data(), subjects_count}; }
};

}  // namespace sluice::quota
