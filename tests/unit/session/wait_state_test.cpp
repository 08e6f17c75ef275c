// Goal: an entry that waits makes exactly the transitions that are listed here.
// Method: every pair of a state and an event, against a list of the allowed ones.
#include "session/wait_state.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace sluice::session {
namespace {

using enum WaitState;
using Step = std::pair<WaitState, WaitEvent>;

const std::map<Step, WaitState> steps = {
    // Without and with waiting, while the client stays.
    {{undecided, WaitEvent::ended}, ended},
    {{undecided, WaitEvent::joined}, waiting},
    {{waiting, WaitEvent::granted}, granted},
    {{granted, WaitEvent::ended}, ended},
    // The client leaves: before the session knows the verdict, while the entry waits, with an
    // outcome that was not written.
    {{undecided, WaitEvent::client_gone}, abandoned},
    {{waiting, WaitEvent::client_gone}, abandoned},
    {{granted, WaitEvent::client_gone}, unclaimed},
    // The owner takes the waiter out of its queue, or the outcome was already under way.
    {{abandoned, WaitEvent::ended}, ended},
    {{abandoned, WaitEvent::granted}, unclaimed},
    {{unclaimed, WaitEvent::ended}, ended},
};

TEST(WaitState, follows_only_the_steps_of_the_table) {
  for (size_t state = 0; state < wait_states_count; ++state) {
    for (size_t event = 0; event < wait_events_count; ++event) {
      const Step step{static_cast<WaitState>(state), static_cast<WaitEvent>(event)};
      const auto allowed = steps.find(step);
      EXPECT_EQ(next_wait_state(step.first, step.second),
                allowed == steps.end() ? no_wait_state : allowed->second)
          << "state " << state << ", event " << event;
    }
  }
}

TEST(WaitState, every_state_reaches_ended) {
  for (size_t first = 0; first < wait_states_count; ++first) {
    auto state = static_cast<WaitState>(first);
    // The client leaves first; then the outcome arrives, then the entry ends.
    for (const WaitEvent event : {WaitEvent::client_gone, WaitEvent::granted, WaitEvent::ended}) {
      const WaitState next = next_wait_state(state, event);
      if (next != no_wait_state) state = next;
    }
    EXPECT_EQ(state, ended) << "from " << first;
  }
}

}  // namespace
}  // namespace sluice::session
