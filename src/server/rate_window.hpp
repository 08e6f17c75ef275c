// How many entries a shard has recently decided per second: the difference between two readings of
// its counters.
// Flow:   advance() once a turn -> per_second() when a client asks.
// Shape:  readings are taken once a second, and the last two are kept: a rate spans one to two
//         seconds, and less only in the first, also after a pause without turns (a stopped
//         process), which would be no part of the present.
// Units:  monotonic nanoseconds; entries per second. An entry that waits counts as queued, and
//         again with its outcome; one that is neither approved nor queued counts as denied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "api/verdict.hpp"
#include "base/time.hpp"
#include "shard/key_shard.hpp"

namespace sluice::server {

struct Rates {
  double approved = 0;
  double denied = 0;
  double queued = 0;

  double decisions() const noexcept { return approved + denied + queued; }
};

class RateWindow {
 public:
  static constexpr int64_t reading_ns = 1'000 * base::ns_per_ms;

  void advance(int64_t now_ns, const shard::Statistics& statistics) noexcept {
    if (now_ns - last_.ns < reading_ns) [[likely]]
      return;
    const Reading now = read(now_ns, statistics);
    before_ = now_ns - last_.ns < 2 * reading_ns ? last_ : now;
    last_ = now;
  }

  Rates per_second(int64_t now_ns, const shard::Statistics& statistics) const noexcept {
    if (before_.ns == never) return {};
    const Reading now = read(now_ns, statistics);
    const int64_t spanned_ns = std::max(now_ns - before_.ns, reading_ns);
    const auto rate = [&](uint64_t from, uint64_t to) {
      return 1e9 * static_cast<double>(to - from) / static_cast<double>(spanned_ns);
    };
    return {.approved = rate(before_.approved, now.approved),
            .denied = rate(before_.denied, now.denied),
            .queued = rate(before_.queued, now.queued)};
  }

 private:
  // Long ago, yet far enough from the smallest value to be subtracted.
  static constexpr int64_t never = -(int64_t{1} << 62);

  struct Reading {
    int64_t ns = never;
    uint64_t approved = 0;
    uint64_t denied = 0;
    uint64_t queued = 0;
  };

  static Reading read(int64_t now_ns, const shard::Statistics& statistics) noexcept {
    const auto count = [&](api::Verdict verdict) {
      return statistics.decisions[static_cast<size_t>(verdict)];
    };
    Reading reading{.ns = now_ns,
                    .approved = count(api::Verdict::approved),
                    .queued = count(api::Verdict::queued)};
    for (const uint64_t decisions : statistics.decisions) reading.denied += decisions;
    reading.denied -= reading.approved + reading.queued;
    return reading;
  }

  Reading before_;
  Reading last_;
};

}  // namespace sluice::server
