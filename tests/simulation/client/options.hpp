// Options of a client, as the seed has them.
#pragma once

#include "sluicegate/client.hpp"
#include "tests/property/seeds.hpp"

namespace sluicegate::simulation {

inline ClientOptions some_options(sluice::Dice& dice) {
  const auto ms = [&](int64_t least, int64_t most) {
    return std::chrono::milliseconds{dice.between(least, most)};
  };
  const bool is_small = dice.percent(20);
  return {.on_failure = static_cast<OnFailure>(dice.below(3)),
          .requeue = dice.percent(25),
          .connect_timeout = ms(50, 500),
          .call_timeout = ms(30, 800),
          .backoff_first = ms(1, 20),
          .backoff_longest = ms(20, 200),
          .pending_max = is_small ? static_cast<uint32_t>(2 + dice.below(20)) : 65'536,
          .when_full = dice.percent(50) ? WhenFull::block : WhenFull::refuse,
          .frame_entries_max = dice.percent(50) ? 1'024 : static_cast<uint32_t>(1 + dice.below(4)),
          .frames_in_flight = static_cast<uint32_t>(1 + dice.below(4)),
          .settle_timeout = ms(0, 3'000)};
}

}  // namespace sluicegate::simulation
