// The subjects of a state file as a file of go-ratelimit, and what that cannot have.
// Flow:   StoredSubjects -> outgoing_of() -> write_go_ratelimit_yaml() or _sqlite().
// Shape:  what a sub-window has counted becomes events at its end: so they count for up to 4 s
//         longer than they would have, never shorter; of requests one each, of tokens one in all.
// Errors: a complaint where there would be too many events.
// Lives:  pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "migration/stored_subjects.hpp"
#include "policy/quota_book.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::migration {

// Of all models together: each is a time of some 40 bytes in the file.
inline constexpr uint64_t outgoing_requests_max = 2'000'000;

struct Outgoing {
  transfer::GoRatelimitFile file;
  std::vector<transfer::Complaint> left_out;
  std::vector<transfer::Complaint> complaints;
  uint64_t requests = 0;
  uint64_t token_events = 0;
  size_t days = 0;
};

// `rules`: of the configuration file that the subjects were read with; null: with none.
Outgoing outgoing_of(const StoredSubjects& stored, const policy::QuotaRules* rules);

}  // namespace sluice::migration
