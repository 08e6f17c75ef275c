#include "io/probe.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "io/epoll/epoll_io.hpp"
#include "io/uring/buffer_ring.hpp"
#include "io/uring/ring.hpp"
#include "io/uring/uring_io.hpp"
#include "io/wake_signal.hpp"

namespace sluice::io {

using base::IoBackend;

namespace {

constexpr uint64_t receive_tag = 1;
constexpr uint64_t wake_tag = 2;
constexpr int refusals_max = 5;  // some may pass by themselves
constexpr std::string_view greeting = "sluicegate";

// The sysctl is of Linux 6.6; a missing file means that nothing is forbidden by it.
char uring_disabled() {
  const FileDescriptor file(::open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC));
  char value = '0';
  if (file.is_open() && ::read(file.get(), &value, 1) != 1) value = '0';
  return value;
}

std::string explain(int error, std::string_view step) {
  const std::string what = "io_uring does not work here (" + std::string(step) + ": " +
                           std::generic_category().message(error) + "): ";
  switch (error) {
    case EPERM:
    case EACCES:
      if (const char disabled = uring_disabled(); disabled != '0') {
        return what + "the sysctl kernel.io_uring_disabled is " + disabled +
               "; set it to 0, or choose --io epoll";
      }
      return what +
             "a seccomp profile forbids it, as Docker's default does; start the container with "
             "--security-opt seccomp=FILE, a profile that allows io_uring_setup, io_uring_enter "
             "and io_uring_register, or choose --io epoll";
    case ENOSYS:
      return what +
             "the kernel is too old or a sandbox such as gVisor hides it; use Linux 6.1 or "
             "newer without the sandbox, or choose --io epoll";
    case ENOMEM:
      return what +
             "the limit on locked memory or the memory cgroup is too small; raise it "
             "(ulimit -l unlimited, LimitMEMLOCK=infinity), or choose --io epoll";
    case EINVAL:
    case EOPNOTSUPP:
      return what + "the kernel lacks a feature; use Linux 6.1 or newer, or choose --io epoll";
    default:
      return what + "choose --io epoll, or free what is missing";
  }
}

void check(bool works, int error, const char* step) {
  if (!works) throw std::system_error(error, std::generic_category(), step);
}

void submit_probes(Ring& ring, int socket, int event, uint64_t& wake_count) {
  io_uring_sqe* receive = ring.next_submission();
  check(receive != nullptr, EIO, "io_uring_enter");
  io_uring_prep_recv_multishot(receive, socket, nullptr, 0, 0);
  receive->flags |= IOSQE_BUFFER_SELECT;
  receive->buf_group = BufferRing::group;
  receive->user_data = receive_tag;
  io_uring_sqe* wake = ring.next_submission();
  check(wake != nullptr, EIO, "io_uring_enter");
  io_uring_prep_read(wake, event, &wake_count, sizeof wake_count, 0);
  wake->user_data = wake_tag;
}

// One multishot receive through the buffer ring, compared byte by byte, and one wake-up.
void try_uring() {
  std::array<int, 2> pair{};
  const int paired = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data());
  check(paired == 0, errno, "socketpair");
  const FileDescriptor ours(pair[0]);
  const FileDescriptor theirs(pair[1]);
  uint64_t wake_count = 0;
  WakeSignal signal(0);
  Ring ring(8, 16);
  BufferRing buffers(ring.raw(), 2, 64);
  submit_probes(ring, ours.get(), signal.fd(), wake_count);
  const ssize_t written = ::write(theirs.get(), greeting.data(), greeting.size());
  check(written == static_cast<ssize_t>(greeting.size()), errno, "write");
  signal.raise();

  bool received = false;
  bool woken = false;
  int failure = 0;
  int refusal = 0;
  int refusals = 0;
  const auto unfinished = [&] { return !(received && woken) && failure == 0; };
  for (int round = 0; round < 20 && refusals < refusals_max && unfinished(); ++round) {
    refusal = -ring.enter(50 * base::ns_per_ms);
    if (refusal != 0) ++refusals;
    ring.completions([&](const io_uring_cqe& cqe) {
      if (cqe.res < 0) failure = -cqe.res;
      if (cqe.res <= 0) return true;
      if (cqe.user_data == wake_tag) woken = wake_count == 1;
      if (cqe.user_data == receive_tag && (cqe.flags & IORING_CQE_F_BUFFER) != 0) {
        const auto bytes = buffers.take(cqe);
        received = bytes.size() == greeting.size() &&
                   std::memcmp(bytes.data(), greeting.data(), bytes.size()) == 0;
      }
      return true;
    });
  }
  check(refusal == 0, refusal, "io_uring_enter");
  check(failure == 0, failure, "a multishot receive");
  check(received, EIO, "a multishot receive gave other bytes");
  check(woken, EIO, "an eventfd was not seen");
}

// What std::system_error puts in front of the error's own text.
std::string step_of(const std::system_error& error) {
  const std::string text = error.what();
  return text.substr(0, text.rfind(": "));
}

std::string going_on_with_epoll(std::string_view why_not) {
  return std::string(why_not) + "; going on with epoll";
}

MadeIo make_epoll(Options options, std::vector<std::string> warnings = {}) {
  auto epoll = std::make_unique<EpollIo>(std::move(options));
  if (const int error = epoll->precise_wait_error(); error != 0) {
    warnings.push_back("epoll_pwait2 does not work here (" +
                       std::generic_category().message(error) +
                       "): waits end up to a millisecond late; use Linux 5.11 or newer, and a "
                       "seccomp profile that allows it");
  }
  return {std::move(epoll), std::move(warnings)};
}

}  // namespace

std::string probe_uring() {
  try {
    try_uring();
    return {};
  } catch (const std::system_error& error) {
    return explain(error.code().value(), step_of(error));
  }
}

Choice choose_backend(IoBackend wanted) {
  if (wanted == IoBackend::epoll) return {.backend = IoBackend::epoll};
  std::string why_not = probe_uring();
  const bool may_fall_back = wanted == IoBackend::automatic;
  if (why_not.empty()) return {.backend = IoBackend::uring, .may_fall_back = may_fall_back};
  if (!may_fall_back) throw std::runtime_error(why_not);
  return {.backend = IoBackend::epoll, .warning = going_on_with_epoll(why_not)};
}

MadeIo make_io(const Choice& choice, Options options) {
  ASSERT(choice.backend != IoBackend::automatic);
  if (choice.backend == IoBackend::epoll) return make_epoll(std::move(options));
  try {
    return {std::make_unique<UringIo>(std::move(options))};
  } catch (const std::system_error& error) {
    const std::string step = step_of(error);
    if (!step.starts_with("io_uring")) throw;  // epoll would need it, too
    const std::string why_not = explain(error.code().value(), step + " of a worker");
    if (!choice.may_fall_back) throw std::runtime_error(why_not);
    return make_epoll(std::move(options), {going_on_with_epoll(why_not)});
  }
}

}  // namespace sluice::io
