// Makes chosen calls to the kernel fail in a test program: "the third accept4() fails with EMFILE".
// Below io/ the kernel is the interface, so here alone tests hook symbols at link time.
// Flow:   code under test -> linker's --wrap -> __wrap_NAME() -> fails, or calls the kernel.
// Shape:  an operation of io_uring is no call: one that shall fail becomes a no-op on its way to
//         the kernel, and its completion gets the error. Calls inside shared libraries do not fail.
// Lives:  a failure ends with its FailingCall; one at a time for each call. Any thread may call.
// Source: ld(1), --wrap; failing_calls.md has what is covered and what is not.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::test {

enum class Call : uint8_t {
  accept4,
  bind,
  connect,
  epoll_create1,
  epoll_ctl,
  epoll_pwait2,
  epoll_wait,
  eventfd,
  flock,
  fork,
  getsockname,
  getsockopt,
  inotify_add_watch,
  inotify_init1,
  mmap64,
  recv,
  renameat2,
  sched_getaffinity,
  send,
  setsockopt,
  socket,
  statfs64,
  timerfd_create,
  // Of liburing: they return the error.
  io_uring_queue_init_params,
  io_uring_register_buf_ring,
  io_uring_register_ring_fd,
  io_uring_submit,
  io_uring_submit_and_get_events,
  io_uring_submit_and_wait_timeout,
  // Not a call: the bits of `error` are features that the ring lacks.
  io_uring_features,
  // Operations of io_uring, named after their IORING_OP_*.
  op_accept,
  op_connect,
  op_poll_add,
  op_read,
  op_recv,
  op_send,
};
inline constexpr uint32_t calls_count = static_cast<uint32_t>(Call::op_send) + 1;

// Not an error: the call transfers one byte at most (recv, send, op_send).
inline constexpr int one_byte = -1;
// Nor is this: the file system is NFS (statfs64).
inline constexpr int is_nfs = -2;

struct Times {
  uint32_t skipped = 0;  // that many calls work first
  uint32_t failing = UINT32_MAX;
};

class FailingCall {
 public:
  FailingCall(Call call, int error, Times times = {}) noexcept;
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;

  uint32_t failed_count() const noexcept;

 private:
  const Call call_;
};

// While it lives, a program that opens the file `path` gets `other` instead.
class ReplacedFile {
 public:
  ReplacedFile(const char* path, std::string other);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;
};

// How often the call was made so far, failing or not.
uint64_t calls_made(Call call) noexcept;

}  // namespace sluice::test
