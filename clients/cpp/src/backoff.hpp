// The pauses between attempts: doubled each time up to a bound, less a random part of up to a half,
// so that not all clients of a server try again at once. Part of Client.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

#include "sluicegate/client.hpp"

namespace sluicegate {

class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  Backoff(const ClientOptions& options, uint32_t seed)
      : first_{options.backoff_first}, longest_{options.backoff_longest}, random_{seed} {}

  // After so many failures in a row.
  Clock::duration pause(uint32_t failures) {
    const uint32_t doublings = std::min(std::max(failures, 1U) - 1, 20U);
    const auto longest = std::min(first_ * (int64_t{1} << doublings), longest_);
    std::uniform_real_distribution<double> part{0.5, 1.0};
    return std::chrono::duration_cast<Clock::duration>(longest * part(random_));
  }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds longest_;
  std::minstd_rand random_;
};

}  // namespace sluicegate
