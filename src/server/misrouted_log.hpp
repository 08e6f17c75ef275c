// Logs that other nodes forward entries to this one that are not its own, by its list: a line a
// minute at most.
// Flow:   each worker, with its route::MisroutedCount -> note().
// Threads: any; one for the whole process. Allocates, but only for its lines.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.hpp"
#include "server/log_pause.hpp"

namespace sluice::server {

class MisroutedLog {
 public:
  static constexpr int64_t pause_ns = 60 * base::ns_per_s;  // between two lines

  // So many more entries were misrouted.
  void note(uint64_t entries, base::Now now) noexcept;

 private:
  std::atomic<uint64_t> unreported_{0};
  LogPause pause_{pause_ns};
};

}  // namespace sluice::server
