// Times of a part as they travel between nodes, whose clocks have nothing in common: from now on.
#pragma once

#include <algorithm>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "wire/visit_time.hpp"

namespace sluice::server {

// 0 is a time that is not set.
inline int64_t relative_ns(int64_t at_ns, base::Now now) noexcept {
  if (at_ns == 0) return wire::unset_in_ns;
  if (at_ns == base::never_ns) return wire::never_in_ns;
  return std::max<int64_t>(at_ns - now.monotonic_ns, 0);
}
inline int64_t absolute_ns(int64_t in_ns, base::Now now) noexcept {
  if (in_ns == wire::unset_in_ns) return 0;
  if (in_ns == wire::never_in_ns || in_ns > base::never_ns - now.monotonic_ns) {
    return base::never_ns;
  }
  return now.monotonic_ns + in_ns;
}

inline void make_relative(api::SpreadCall& part, base::Now now) noexcept {
  for (int64_t* const time : {&part.fits_at_ns, &part.earliest_ns, &part.queue_fits_at_ns}) {
    *time = relative_ns(*time, now);
  }
}
inline void make_absolute(api::SpreadCall& part, base::Now now) noexcept {
  for (int64_t* const time : {&part.fits_at_ns, &part.earliest_ns, &part.queue_fits_at_ns}) {
    *time = absolute_ns(*time, now);
  }
}

}  // namespace sluice::server
