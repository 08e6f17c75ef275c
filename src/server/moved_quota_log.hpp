// Counts the quotas that the process still has to hand over to other nodes, and logs how that goes:
// the start, the end, quotas that their owners call invalid, and, a line a minute at most, nodes
// that do not take them.
// Flow:   add(), while the workers restore -> log_start() -> MovedQuotas of each worker:
//         note_taken(), note_refused(), note_invalid().
// Threads: any; one for the whole process. Allocates, but only for its lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/time.hpp"
#include "quota/stored_state.hpp"
#include "server/log_pause.hpp"

namespace sluice::server {

class MovedQuotaLog {
 public:
  static constexpr int64_t pause_ns = 60 * base::ns_per_s;  // between two lines about refusals

  void add(uint64_t quotas) noexcept;
  // All workers have added theirs. Without a secret no node takes them.
  void log_start(bool has_secret) const noexcept;
  // Their owner has so many of them.
  void note_taken(uint64_t quotas) noexcept;
  // A node has not taken some for a while.
  void note_refused(std::string_view node, std::string_view reason, base::Now now) noexcept;
  // A node has called so many invalid, and this one first. Once for each quota.
  void note_invalid(std::string_view node, const quota::MovedQuota& first,
                    uint64_t quotas) const noexcept;

  uint64_t left() const noexcept { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> left_{0};
  LogPause pause_{pause_ns};
};

}  // namespace sluice::server
