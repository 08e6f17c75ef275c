#include "server/counted_warning.hpp"

#include "log/log.hpp"

namespace sluice::server {

void CountedWarning::note(uint64_t times, base::Now now) noexcept {
  unreported_.fetch_add(times, std::memory_order_relaxed);
  if (!pause_.may_log(now)) return;
  log::warning(text_, {{"times", unreported_.exchange(0, std::memory_order_relaxed)}});
}

}  // namespace sluice::server
