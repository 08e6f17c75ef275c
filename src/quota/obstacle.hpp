// Why some amounts do not fit now, and when they may.
// Flow:   amounts that do not fit the limited subjects of a call -> find_obstacle() -> the code
//         and retry of a refusal, or how long a waiter sleeps.
// Units:  nanoseconds, monotonic; base::never_ns: not by waiting.
// Lives:  pure but for the limited subjects' words, which are rolled.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "quota/limited_subjects.hpp"

namespace sluice::quota {

// The retry while it is unknown when a reservation will end.
inline constexpr int64_t unknown_retry_after_ns = limits::unknown_retry_after_ms * base::ns_per_ms;

struct Obstacle {
  api::QuotaCode code = api::QuotaCode::ok;  // ok: there is none
  int64_t fits_at_ns = 0;                    // if no other call is admitted
  int64_t earliest_ns = 0;                   // if everything open were refunded, too
};

// Of two obstacles of one call: the code with the higher precedence, and the later times.
void add(const Obstacle& found, Obstacle& worst) noexcept;

// Over all limits without room: the code with the highest precedence, and the latest times.
Obstacle find_obstacle(const LimitedSubjects& limited, const limiter::Shares& shares,
                       const limiter::Moment& now) noexcept;

// Why a call that may wait would wait in vain for the obstacle to go, or does not begin to wait;
// `none`: it can wait.
api::QuotaCode why_no_wait(const api::QuotaCall& call, const Obstacle& obstacle,
                           int64_t now_ns) noexcept;
// The outcome of a wait for an obstacle that waiting cannot remove.
api::QuotaCode final_code(const Obstacle& obstacle) noexcept;

// When the client may repeat a call that was refused with this code, because of this obstacle.
int64_t retry_after_ms_of(api::QuotaCode code, const Obstacle& obstacle, int64_t now_ns) noexcept;
// Sets when the client may repeat a refused call, by its code alone, unless the answer has it
// already.
void set_retry_after(api::QuotaAnswer& answer) noexcept;

}  // namespace sluice::quota
