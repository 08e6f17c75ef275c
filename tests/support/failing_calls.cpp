#include "support/failing_calls.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace sluice::test {
namespace {

struct Plan {
  std::atomic<int> error{0};  // 0: the call works
  std::atomic<uint32_t> skipped{0};
  std::atomic<uint32_t> failing{0};
  std::atomic<uint32_t> failed{0};
  std::atomic<uint64_t> made{0};
};

std::array<Plan, calls_count> plans;
std::mutex mutex;  // of choosing which call fails, and of `replaced`

Plan& plan_of(Call call) noexcept {
  return plans[static_cast<size_t>(call)];
}

// The error with which this call fails, or 0.
int error_of(Call call) noexcept {
  Plan& plan = plan_of(call);
  ++plan.made;
  if (plan.error == 0) return 0;
  const std::lock_guard lock(mutex);
  if (plan.skipped > 0) {
    --plan.skipped;
    return 0;
  }
  if (plan.failing == 0) return 0;
  --plan.failing;
  ++plan.failed;
  return plan.error;
}

// Fails as a system call does; false: it works.
bool fails(Call call) noexcept {
  const int error = error_of(call);
  if (error != 0) errno = error;
  return error != 0;
}

std::string replaced_path;
std::string replacing_path;

std::string path_to_open(const char* path) {
  const std::lock_guard lock(mutex);
  return path == replaced_path ? replacing_path : path;
}

// The operations whose completions get an error, by ring and user data.
std::unordered_map<const io_uring*, std::unordered_map<uint64_t, int>> replaced;

bool operation_of(const io_uring_sqe& sqe, Call& call) noexcept {
  switch (sqe.opcode) {
    case IORING_OP_ACCEPT:
      call = Call::op_accept;
      return true;
    case IORING_OP_CONNECT:
      call = Call::op_connect;
      return true;
    case IORING_OP_POLL_ADD:
      call = Call::op_poll_add;
      return true;
    case IORING_OP_READ:
      call = Call::op_read;
      return true;
    case IORING_OP_RECV:
      call = Call::op_recv;
      return true;
    case IORING_OP_SEND:
      call = Call::op_send;
      return true;
    default:
      return false;
  }
}

void replace_submissions(io_uring* ring) {
  for (unsigned place = ring->sq.sqe_head; place != ring->sq.sqe_tail; ++place) {
    io_uring_sqe& sqe = ring->sq.sqes[place & (*ring->sq.kring_entries - 1)];
    Call call{};
    if (!operation_of(sqe, call)) continue;
    const int error = error_of(call);
    if (error == one_byte) {
      sqe.len = 1;
    } else if (error != 0) {
      const uint64_t user_data = sqe.user_data;
      io_uring_prep_nop(&sqe);
      sqe.user_data = user_data;
      const std::lock_guard lock(mutex);
      replaced[ring][user_data] = error;
    }
  }
}

void replace_completions(io_uring* ring) {
  const std::lock_guard lock(mutex);
  auto& errors = replaced[ring];
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(ring, head, cqe) {
    const auto found = errors.find(cqe->user_data);
    if (found == errors.end()) continue;
    cqe->res = -found->second;
    errors.erase(found);
  }
}

}  // namespace

FailingCall::FailingCall(Call call, int error, Times times) noexcept : call_(call) {
  Plan& plan = plan_of(call);
  if (plan.error != 0) std::abort();  // one at a time
  plan.skipped = times.skipped;
  plan.failing = times.failing;
  plan.failed = 0;
  plan.error = error;
}

FailingCall::~FailingCall() {
  plan_of(call_).error = 0;
}

uint32_t FailingCall::failed_count() const noexcept {
  return plan_of(call_).failed;
}

ReplacedFile::ReplacedFile(const char* path, std::string other) {
  const std::lock_guard lock(mutex);
  if (!replaced_path.empty()) std::abort();  // one at a time
  replaced_path = path;
  replacing_path = std::move(other);
}

ReplacedFile::~ReplacedFile() {
  const std::lock_guard lock(mutex);
  replaced_path.clear();
}

uint64_t calls_made(Call call) noexcept {
  return plan_of(call).made;
}

}  // namespace sluice::test

// NOLINTBEGIN(bugprone-reserved-identifier): the linker demands these names.
using sluice::test::Call;
using sluice::test::error_of;
using sluice::test::fails;
using sluice::test::is_nfs;
using sluice::test::one_byte;
using sluice::test::path_to_open;

// A system call: RESULT NAME(PARAMETERS) is made with ARGUMENTS unless it fails with FAILED.
#define SLUICE_WRAP(RESULT, NAME, PARAMETERS, ARGUMENTS, FAILED)   \
  extern "C" RESULT __real_##NAME PARAMETERS;                      \
  extern "C" RESULT __wrap_##NAME PARAMETERS {                     \
    return fails(Call::NAME) ? (FAILED) : __real_##NAME ARGUMENTS; \
  }
// A function of liburing.
#define SLUICE_WRAP_URING(NAME, PARAMETERS, ARGUMENTS)    \
  extern "C" int __real_##NAME PARAMETERS;                \
  extern "C" int __wrap_##NAME PARAMETERS {               \
    const int error = error_of(Call::NAME);               \
    return error != 0 ? -error : __real_##NAME ARGUMENTS; \
  }
// One that submits, and perhaps waits.
#define SLUICE_WRAP_SUBMIT(NAME, PARAMETERS, ARGUMENTS)        \
  extern "C" int __real_##NAME PARAMETERS;                     \
  extern "C" int __wrap_##NAME PARAMETERS {                    \
    if (const int error = error_of(Call::NAME)) return -error; \
    sluice::test::replace_submissions(ring);                   \
    const int result = __real_##NAME ARGUMENTS;                \
    sluice::test::replace_completions(ring);                   \
    return result;                                             \
  }

SLUICE_WRAP(int, accept4, (int fd, sockaddr* address, socklen_t* size, int flags),
            (fd, address, size, flags), -1)
SLUICE_WRAP(int, bind, (int fd, const sockaddr* address, socklen_t size), (fd, address, size), -1)
SLUICE_WRAP(int, epoll_create1, (int flags), (flags), -1)
SLUICE_WRAP(int, epoll_ctl, (int epoll, int operation, int fd, epoll_event* event),
            (epoll, operation, fd, event), -1)
SLUICE_WRAP(int, epoll_pwait2,
            (int epoll, epoll_event* events, int count, const timespec* time, const sigset_t* mask),
            (epoll, events, count, time, mask), -1)
SLUICE_WRAP(int, epoll_wait, (int epoll, epoll_event* events, int count, int time),
            (epoll, events, count, time), -1)
SLUICE_WRAP(int, eventfd, (unsigned count, int flags), (count, flags), -1)
SLUICE_WRAP(int, flock, (int fd, int operation), (fd, operation), -1)
SLUICE_WRAP(pid_t, fork, (), (), -1)
SLUICE_WRAP(int, getsockname, (int fd, sockaddr* address, socklen_t* size), (fd, address, size), -1)
SLUICE_WRAP(int, getsockopt, (int fd, int level, int option, void* value, socklen_t* size),
            (fd, level, option, value, size), -1)
SLUICE_WRAP(int, inotify_add_watch, (int fd, const char* path, uint32_t mask), (fd, path, mask), -1)
SLUICE_WRAP(int, inotify_init1, (int flags), (flags), -1)
SLUICE_WRAP(void*, mmap64, (void* at, size_t size, int protection, int flags, int fd, off_t offset),
            (at, size, protection, flags, fd, offset), reinterpret_cast<void*>(-1))
SLUICE_WRAP(int, renameat2,
            (int from, const char* old_path, int to, const char* new_path, unsigned flags),
            (from, old_path, to, new_path, flags), -1)
SLUICE_WRAP(int, sched_getaffinity, (pid_t process, size_t bytes, cpu_set_t* set),
            (process, bytes, set), -1)
SLUICE_WRAP(int, setsockopt, (int fd, int level, int option, const void* value, socklen_t size),
            (fd, level, option, value, size), -1)
SLUICE_WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol), -1)
SLUICE_WRAP(int, timerfd_create, (int clock, int flags), (clock, flags), -1)

extern "C" int __real_io_uring_queue_init_params(unsigned entries, io_uring* ring,
                                                 io_uring_params* parameters);
extern "C" int __wrap_io_uring_queue_init_params(unsigned entries, io_uring* ring,
                                                 io_uring_params* parameters) {
  if (const int error = error_of(Call::io_uring_queue_init_params)) return -error;
  const int result = __real_io_uring_queue_init_params(entries, ring, parameters);
  if (result == 0) ring->features &= ~static_cast<unsigned>(error_of(Call::io_uring_features));
  return result;
}
SLUICE_WRAP_URING(io_uring_register_buf_ring,
                  (io_uring * ring, io_uring_buf_reg* registration, unsigned flags),
                  (ring, registration, flags))
SLUICE_WRAP_URING(io_uring_register_ring_fd, (io_uring * ring), (ring))
SLUICE_WRAP_SUBMIT(io_uring_submit, (io_uring * ring), (ring))
SLUICE_WRAP_SUBMIT(io_uring_submit_and_get_events, (io_uring * ring), (ring))
SLUICE_WRAP_SUBMIT(io_uring_submit_and_wait_timeout,
                   (io_uring * ring, io_uring_cqe** cqe, unsigned wait_for, __kernel_timespec* time,
                    sigset_t* mask),
                   (ring, cqe, wait_for, time, mask))

extern "C" int __real_open64(const char* path, int flags, ...);
extern "C" int __wrap_open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0;
  va_end(more);
  return __real_open64(path_to_open(path).c_str(), flags, mode);
}

extern "C" int __real_statfs64(const char* path, struct statfs64* found);
extern "C" int __wrap_statfs64(const char* path, struct statfs64* found) {
  const int error = error_of(Call::statfs64);
  if (error > 0) return errno = error, -1;
  const int result = __real_statfs64(path, found);
  if (error == is_nfs) found->f_type = NFS_SUPER_MAGIC;
  return result;
}

// An interrupted one goes on in the kernel.
extern "C" int __real_connect(int fd, const sockaddr* address, socklen_t size);
extern "C" int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  const int error = error_of(Call::connect);
  if (error == 0) return __real_connect(fd, address, size);
  if (error == EINTR) __real_connect(fd, address, size);
  return errno = error, -1;
}

// These two may also be short.
extern "C" ssize_t __real_recv(int fd, void* bytes, size_t size, int flags);
extern "C" ssize_t __wrap_recv(int fd, void* bytes, size_t size, int flags) {
  const int error = error_of(Call::recv);
  if (error > 0) return errno = error, -1;
  return __real_recv(fd, bytes, error == one_byte && size > 1 ? 1 : size, flags);
}

extern "C" ssize_t __real_send(int fd, const void* bytes, size_t size, int flags);
extern "C" ssize_t __wrap_send(int fd, const void* bytes, size_t size, int flags) {
  const int error = error_of(Call::send);
  if (error > 0) return errno = error, -1;
  return __real_send(fd, bytes, error == one_byte && size > 1 ? 1 : size, flags);
}
// NOLINTEND(bugprone-reserved-identifier)
