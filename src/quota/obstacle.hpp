// Why some amounts do not fit now, and when they may.
// Flow:   a party that does not fit -> find_obstacle() -> the code and retry of a refusal, or how
//         long a waiter sleeps.
// Units:  nanoseconds, monotonic; base::never_ns: not by waiting.
// Lives:  pure but for the members' words, which are rolled.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "quota/members.hpp"

namespace sluice::quota {

// When nobody knows when somebody will settle.
inline constexpr int64_t unknown_retry_ns = limits::unknown_retry_ms * base::ns_per_ms;

struct Obstacle {
  api::QuotaCode code = api::QuotaCode::ok;  // ok: there is none
  int64_t fits_at_ns = 0;                    // if nobody else asks
  int64_t earliest_ns = 0;                   // if also everything open were refunded
};

// Of all limits without room: the code that weighs most, and the latest times.
Obstacle find_obstacle(const Members& members, const limiter::Shares& shares,
                       const limiter::Moment& now) noexcept;

// When a call that was refused with this code, because of this obstacle, may be asked again.
int64_t retry_ms_of(api::QuotaCode code, const Obstacle& against, int64_t now_ns) noexcept;
// When a refused call may be asked again, by its code alone, unless the answer says it already.
void set_retry(api::QuotaAnswer& answer) noexcept;

}  // namespace sluice::quota
