// The request of a call to reserve, consume or record, in the store's own terms.
// Lives:  a value; a waiter keeps it until it is served.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "limiter/meter_shape.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

struct Request {
  api::Amounts amounts;
  uint64_t cached_input_tokens = 0;  // is_used: a part of the input
  NameHash id;  // of the client's id, and of its subjects' tag or names; zero: none
  // Of the call's kind, its amounts and its subjects' names: a repeat under the same id must have
  // the same; 0: the call has no id.
  uint64_t request_hash = 0;
  uint64_t connection = 0;  // with which the reservation ends; 0: none
  uint32_t lifetime_ms = 0;
  uint8_t subjects_count = 0;
  bool is_used = false;  // no reservation follows: the amounts are what was used
  uint16_t route = 0;    // of the first subject's name, if that has no quota here
  std::array<SubjectIndex, limits::call_subjects_max> subjects{};  // no_subject: without a quota

  // Whether it takes a place among the reservations.
  bool needs_place() const noexcept { return !is_used || id.is_set(); }
  limiter::Shares shares() const noexcept { return limiter::Shares(amounts, cached_input_tokens); }
  std::span<const SubjectIndex> named() const noexcept { return {subjects.data(), subjects_count}; }
};

}  // namespace sluice::quota
