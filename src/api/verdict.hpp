// The answer to one entry, the same in every dialect.
// Shape: one byte on the wire (proto/sluicegate.capnp, Verdict); numbers are never reused.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::api {

// Zero is never sent, so that zeroed memory or a missing column never reads as an approval.
enum class Verdict : uint8_t {
  none = 0,
  approved = 1,
  denied = 2,        // the limit is reached, or the key's queue is full
  queued = 3,        // waits; the outcome follows
  table_full = 4,    // no room for another key
  waiters_full = 5,  // no room for another waiter in the server
  overloaded = 6,
  not_allowed = 7,  // an override that the operator switched off
  never_fits = 8,   // the cost is above the limit
  invalid_key = 9,  // empty or too long
  wait_limit = 10,  // waited as long as allowed
  withdrawn = 11,
  draining = 12,
  handles_full = 13,
  owner_unreachable = 14,
  connection_waiters_full = 15,  // this connection has its share of the waiters
  key_waiters_full = 16,         // this key has
};

inline constexpr uint32_t verdicts_count = 17;

// As in metrics and in docs/protocol.md: "approved", "table_full", ...
std::string_view verdict_name(Verdict) noexcept;

}  // namespace sluice::api
