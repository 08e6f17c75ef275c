// One io_uring: its set-up, and one system call that submits and waits.
// Flow:   next_submission() -> enter() -> completions().
// Errors: the constructor throws std::system_error. next_submission() gives nullptr only when the
//         kernel takes nothing; the caller has to try again later.
// Lives:  built, used and destroyed by one thread (SINGLE_ISSUER).
// Source: io_uring_setup(2), io_uring_enter(2); flags up to Linux 6.1, which liburing 2.3 knows.
//         Newer set-up flags corrupt the ring under an older library: do not add any.
#pragma once

#include <liburing.h>

#include <cstdint>

#include "io/refusal_pause.hpp"

namespace sluice::io {

class Ring {
 public:
  Ring(uint32_t submissions, uint32_t completions);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring& raw() noexcept { return ring_; }
  uint32_t completions_max() const noexcept { return completions_max_; }

  io_uring_sqe* next_submission() noexcept;

  // Submits, and waits for a completion if there is none and `wait_ns` is above 0. Completions
  // are made only in here (DEFER_TASKRUN), some twenty at a time: see more_expected(). Where the
  // kernel refuses (no memory) and there is none, it pauses, and returns why: a negative errno. The
  // caller reports it, and calls again.
  int32_t enter(int64_t wait_ns) noexcept;

  // The kernel has work to do before the next completions show.
  bool more_expected() const noexcept;

  // Nothing is to be submitted, and no completion is there or expected.
  bool is_quiet() const noexcept {
    return io_uring_sq_ready(&ring_) == 0 && !has_completions() && !more_expected();
  }

  // Calls `handle(const io_uring_cqe&)` for completions, until it returns false: that one is seen
  // again. Returns false then.
  template <typename Handle>
  bool completions(Handle&& handle) noexcept {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* cqe = nullptr;
    bool all = true;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      if (!handle(*cqe)) {
        all = false;
        break;
      }
      ++count;
    }
    io_uring_cq_advance(&ring_, count);
    return all;
  }

  bool has_completions() const noexcept { return io_uring_cq_ready(&ring_) > 0; }
  uint64_t enters() const noexcept { return enters_; }

 private:
  int32_t refusal(int32_t result) noexcept;

  io_uring ring_{};
  uint32_t completions_max_ = 0;
  RefusalPause pause_;
  uint64_t enters_ = 0;
};

}  // namespace sluice::io
