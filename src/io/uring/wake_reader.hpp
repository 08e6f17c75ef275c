// Reads the WakeSignal through io_uring, so that a wake ends a poll() that waits.
// Flow:   submit() before waiting -> raise() on any thread -> complete() -> `woken`.
// Errors: a read that fails twice is tried again after a pause, and reported as `refused`.
// Lives:  like its ring; only raise() may be called by other threads and signal handlers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.hpp"
#include "io/event_sink.hpp"
#include "io/uring/pending_operations.hpp"
#include "io/wake_signal.hpp"

namespace sluice::io {

class WakeReader {
 public:
  void raise() noexcept { signal_.raise(); }

  bool is_due(int64_t now_ns) const noexcept { return !is_armed_ && now_ns >= retry_ns_; }

  void submit(PendingOperations& operations, int64_t now_ns) noexcept {
    if (!is_due(now_ns)) return;
    io_uring_sqe* sqe = operations.prepare({.operation = Operation::wake});
    if (sqe == nullptr) return;
    io_uring_prep_read(sqe, signal_.fd(), &count_, sizeof count_, 0);
    is_armed_ = true;
  }

  int64_t until_retry(int64_t wait_ns, int64_t now_ns) const noexcept {
    return is_armed_ ? wait_ns : std::min(wait_ns, retry_ns_ - now_ns);
  }

  // The first failure may be an interruption. Where the read fails again, it would fail at once for
  // ever; what other threads have published is seen with each `refused`.
  void complete(int32_t result, int64_t now_ns, EventSink& sink) noexcept {
    is_armed_ = false;
    signal_.acknowledge();
    const bool failed = result <= 0;
    if (!failed) sink.push({.kind = EventKind::woken});
    if (failed && has_failed_) {
      retry_ns_ = now_ns + pause_ns;
      sink.push({.kind = EventKind::refused, .result = result});
    }
    has_failed_ = failed;
  }

 private:
  static constexpr int64_t pause_ns = 100 * base::ns_per_ms;

  WakeSignal signal_{0};
  uint64_t count_ = 0;  // the kernel writes it
  bool is_armed_ = false;
  bool has_failed_ = false;  // the last read
  int64_t retry_ns_ = 0;     // not before, after it failed twice
};

}  // namespace sluice::io
