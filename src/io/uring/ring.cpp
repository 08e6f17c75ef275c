#include "io/uring/ring.hpp"

#include <cerrno>
#include <initializer_list>
#include <system_error>

#include "base/time.hpp"

namespace sluice::io {
namespace {

// Best first. TASKRUN_FLAG lets a poll() that does not wait skip the system call.
constexpr std::initializer_list<uint32_t> setups = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL,                                                      // 6.1
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,  // 5.19
    0,
};

}  // namespace

Ring::Ring(uint32_t submissions, uint32_t completions) {
  int result = -EINVAL;
  for (const uint32_t flags : setups) {
    io_uring_params parameters{};
    parameters.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    parameters.cq_entries = completions;
    result = io_uring_queue_init_params(submissions, &ring_, &parameters);
    completions_max_ = parameters.cq_entries;
    if (result != -EINVAL) break;
  }
  if (result < 0) throw std::system_error(-result, std::generic_category(), "io_uring_setup");
  if ((ring_.features & IORING_FEAT_EXT_ARG) == 0 || (ring_.features & IORING_FEAT_NODROP) == 0) {
    io_uring_queue_exit(&ring_);
    throw std::system_error(EINVAL, std::generic_category(), "io_uring_setup (features)");
  }
  io_uring_register_ring_fd(&ring_);  // a little faster where it works
}

Ring::~Ring() {
  io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::next_submission() noexcept {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe != nullptr) return sqe;
  ++enters_;
  io_uring_submit(&ring_);
  return io_uring_get_sqe(&ring_);
}

bool Ring::more_expected() const noexcept {
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_ACQUIRE);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

int32_t Ring::enter(int64_t wait_ns) noexcept {
  if (wait_ns > 0 && !has_completions()) {
    __kernel_timespec time{.tv_sec = wait_ns / base::ns_per_s, .tv_nsec = wait_ns % base::ns_per_s};
    io_uring_cqe* cqe = nullptr;
    ++enters_;
    return refusal(io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &time, nullptr));
  }
  const bool has_taskrun_flag = (ring_.flags & IORING_SETUP_TASKRUN_FLAG) != 0;
  if (has_taskrun_flag && io_uring_sq_ready(&ring_) == 0 && !more_expected()) return 0;
  ++enters_;
  return refusal(io_uring_submit_and_get_events(&ring_));
}

int32_t Ring::refusal(int32_t result) noexcept {
  if (result >= 0 || result == -ETIME || result == -EINTR) {
    pause_.end();
    return 0;
  }
  if (has_completions()) return 0;  // to be handled first: the queue may be full
  pause_.sleep();
  return result;
}

}  // namespace sluice::io
