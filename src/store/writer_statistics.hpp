// What the writer of the state has done so far, for workers and metrics.
// Flow:   the writer's thread -> workers, which decide by it whether they may cut, forget what they
//         lent, or promise that something is durable.
// States: a row's event -> the next status
//           running: a failure that may pass -> failing; a final one -> failed; the end -> stopped
//           failing: all works again -> running; a final failure -> failed; the end -> stopped
//           failed, stopped: none
// Threads: the writer's writes, any reads. The epochs are written last (release), so a reader that
//         sees one (acquire) also sees what belongs to it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "store/failure.hpp"

namespace sluice::store {

enum class WriterStatus : uint8_t {
  running,  // what is handed over becomes durable
  failing,  // it does not for now; the writer tries again
  failed,   // it never will: the file is damaged or was moved
  stopped,
};

constexpr std::string_view status_name(WriterStatus status) noexcept {
  constexpr std::string_view names[] = {"running", "failing", "failed", "stopped"};
  return names[static_cast<uint8_t>(status)];
}

struct WriterStatistics {
  using Count = std::atomic<uint64_t>;

  std::atomic<WriterStatus> status{WriterStatus::running};
  Count committed_epoch{0};  // the last that survives a power failure
  Count released_epoch{0};   // the last whose memory the writer no longer reads
  // How often everything has to be written anew, by a lap that begins after this has grown: an
  // fsync failed, and the disk may lack what it had confirmed.
  Count rewrites_count{0};

  Count commits_count{0};
  Count commits_ns{0};  // the sum of the time that they took
  Count records_count{0};
  Count file_bytes{0};
  Count log_bytes{0};
  std::array<Count, failure_kinds_count> failures{};

  bool is_durable(uint64_t epoch) const noexcept {
    return committed_epoch.load(std::memory_order_acquire) >= epoch;
  }
};

}  // namespace sluice::store
