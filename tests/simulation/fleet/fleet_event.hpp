// What must happen in a suite of fleets, so that its checks mean something.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::simulation {

enum class FleetEvent : uint8_t {
  decided_at_entry,  // by the node that the client is connected to, which owns the key
  decided_by_owner,  // by another node
  stood_in,          // by the entry node, because the owner was not connected
  answered_by_policy,
  late_approval,  // the owner approved what the policy had answered
  late_refund,    // ... and got it back
  queued_by_owner,
  granted_by_owner,
  left_owner,     // a waiter left the queue of another node because its client did
  grant_crossed,  // a grant was refunded, because its client had left
  waiter_lost,    // its owner was lost
  lane_lost,
  survived,  // a cut was over before anybody counted it as silence
  cut,
  paused,
  reset,
  crashed,
  restarted,
};
inline constexpr uint32_t fleet_events_count = 18;

inline constexpr std::array<std::string_view, fleet_events_count> fleet_event_names = {
    "entries decided by the entry node, which owns the key",
    "entries decided by another node",
    "entries decided by the entry node in place of the owner",
    "entries answered by the policy",
    "entries approved after the policy had answered them",
    "late approvals refunded",
    "entries queued by another node",
    "waiters granted by another node",
    "waiters that left another node's queue with their client",
    "grants refunded because the client had left",
    "waiters whose owner was lost",
    "lanes lost",
    "cuts that nobody counted as silence",
    "routes cut",
    "nodes paused",
    "connections between nodes reset",
    "nodes crashed",
    "nodes restarted",
};

using FleetCounts = std::array<uint64_t, fleet_events_count>;

}  // namespace sluice::simulation
