// The life of an entry that may wait, as the shard of its connection sees it: a state machine.
// Flow:   WaitBook::take() -> undecided -> waiting -> granted -> ended. If the client leaves first,
//         abandoned and unclaimed take the places of waiting and granted.
// Shape:  a table of states and events. The state of the notice to the owner is separate
//         (WaitingEntry): one may be under way in every state but the first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"

namespace sluice::session {

enum class WaitState : uint8_t {
  undecided,  // has a ticket in case it is queued; its session does not know yet
  waiting,    // its session knows that it is queued
  granted,    // its session has the outcome, and has not written it yet
  abandoned,  // its client has left, its outcome has not arrived
  unclaimed,  // its client has left, its outcome has arrived: a permit is to be refunded
  ended,      // over; only a notice that names its ticket keeps it
};
inline constexpr size_t wait_states_count = 6;

enum class WaitEvent : uint8_t {
  joined,       // its session has learned that it is queued
  granted,      // its outcome has arrived
  client_gone,  // no client will receive the outcome
  ended,        // it was not queued, or its outcome was written, or its owner is done with it
};
inline constexpr size_t wait_events_count = 4;

// The event cannot happen in that state.
inline constexpr WaitState no_wait_state{0xFF};

constexpr WaitState next_wait_state(WaitState state, WaitEvent event) noexcept {
  using enum WaitState;
  constexpr WaitState never = no_wait_state;
  constexpr WaitState next[wait_states_count][wait_events_count] = {
      // joined, granted, client_gone, ended
      {waiting, never, abandoned, ended},  // undecided
      {never, granted, abandoned, never},  // waiting
      {never, never, unclaimed, ended},    // granted
      {never, unclaimed, never, ended},    // abandoned
      {never, never, never, ended},        // unclaimed
      {never, never, never, never},        // ended
  };
  return next[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

}  // namespace sluice::session
