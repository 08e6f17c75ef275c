// The content of a file of go-ratelimit as subjects: what a new state file gets.
// Flow:   GoRatelimitFile and the present time -> incoming_of() -> write_new_state().
// Errors: complaints about what no subject can be; then nothing is to be written.
// Bounds: limits::key_bytes_max of a name. A server takes --max-key-bytes, and leaves out the rest.
// Lives:  pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/limit.hpp"
#include "migration/live_usage.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::migration {

struct IncomingSubject {
  std::string name;
  api::Quota quota;  // quota_of() the model's
  LiveUsage usage;
};

struct Incoming {
  std::vector<IncomingSubject> subjects;  // by name
  // What is not carried, or not as it is in the file, by its place.
  std::vector<transfer::Complaint> left_out;
  std::vector<transfer::Complaint> complaints;

  // Of the usage that is carried.
  size_t used_subjects = 0;
  uint64_t requests = 0;
  uint64_t token_events = 0;
  size_t days = 0;
};

Incoming incoming_of(const transfer::GoRatelimitFile& file, int64_t now_wall_ns);

}  // namespace sluice::migration
