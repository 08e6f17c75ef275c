#include "server/misrouted_log.hpp"

#include "log/log.hpp"

namespace sluice::server {

void MisroutedLog::note(uint64_t entries, base::Now now) noexcept {
  unreported_.fetch_add(entries, std::memory_order_relaxed);
  if (!pause_.may_log(now)) return;
  log::warning(
      "another node forwards keys to this one that it does not own: start all nodes with the same "
      "--instance-urls, in the same order; of a gocc, keys with unusual escapes are no fault",
      {{"times", unreported_.exchange(0, std::memory_order_relaxed)}});
}

}  // namespace sluice::server
