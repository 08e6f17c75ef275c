// The operations of a UringIo that still await their last completion.
// Flow:   prepare() for each submission -> completed() for each completion.
// Lives:  like its ring.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "io/uring/operation.hpp"
#include "io/uring/ring.hpp"

namespace sluice::io {

class PendingOperations {
 public:
  explicit PendingOperations(Ring& ring) noexcept : ring_(ring) {}

  uint64_t count() const noexcept { return count_; }

  // The next submission, for the caller to fill; nullptr: the kernel takes none for now.
  io_uring_sqe* prepare(OperationTag tag) noexcept {
    io_uring_sqe* sqe = ring_.next_submission();
    if (sqe == nullptr) return nullptr;
    ++count_;
    // Preparing overwrites everything else; liburing 2.3 leaves these bits alone.
    sqe->user_data = pack(tag);
    return sqe;
  }

  void completed(const io_uring_cqe& cqe) noexcept {
    if ((cqe.flags & IORING_CQE_F_MORE) != 0) return;
    ASSERT(count_ > 0);
    --count_;
  }

 private:
  Ring& ring_;
  uint64_t count_ = 0;
};

}  // namespace sluice::io
