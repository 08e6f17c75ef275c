// Events of a state that is kept, to be counted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::simulation {

enum class StateEvent : uint8_t {
  kept,         // the workers of a run kept their state
  committed,    // an epoch
  failed,       // a call on the disk
  not_durable,  // a change was refused
  memory_only,  // a change was caught half-way
};
inline constexpr uint32_t state_events_count = 5;
using StateCounts = std::array<uint64_t, state_events_count>;

inline std::string_view state_event_name(StateEvent event) {
  constexpr std::array<std::string_view, state_events_count> names = {"kept", "committed", "failed",
                                                                      "not durable", "memory only"};
  return names[static_cast<uint32_t>(event)];
}

}  // namespace sluice::simulation
