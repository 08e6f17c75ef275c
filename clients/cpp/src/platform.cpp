#include "platform.hpp"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <random>

#include "sluicegate/error.hpp"
#include "sluicegate/link.hpp"
#include "socket.hpp"

namespace sluicegate {
namespace {

timespec timespec_of(Platform::Clock::duration length) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(length);
  return {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds{length - seconds}.count()};
}

}  // namespace

Platform& real_platform() noexcept {
  static SystemPlatform platform;
  return platform;
}

// The kernel's clock as of its last tick, plus a tick: it costs a fraction of the exact clock, and
// time-outs of callbacks need no exact one.
Platform::Clock::time_point SystemPlatform::about_now() noexcept {
  constexpr auto tick = std::chrono::milliseconds{10};  // the longest that kernels are built with
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point{std::chrono::seconds{now.tv_sec} +
                           std::chrono::nanoseconds{now.tv_nsec} + tick};
}

uint32_t SystemPlatform::random_seed() {
  return std::random_device{}();
}

int SystemPlatform::connect(const std::string& host, uint16_t port,
                            std::chrono::milliseconds timeout, const std::atomic<bool>* stop) {
  return connect_tcp(*this, host, port, timeout, stop);
}

ssize_t SystemPlatform::send(int socket, std::span<const std::byte> bytes) noexcept {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

ssize_t SystemPlatform::receive(int socket, std::span<std::byte> room) noexcept {
  return ::recv(socket, room.data(), room.size(), 0);
}

void SystemPlatform::shut_down(int socket) noexcept {
  ::shutdown(socket, SHUT_RDWR);
}

void SystemPlatform::close(int socket) noexcept {
  ::close(socket);
}

bool SystemPlatform::poll(std::span<pollfd> watched, Deadline deadline) {
  for (;;) {
    timespec timeout{};
    if (deadline) timeout = timespec_of(std::max(*deadline - now(), Clock::duration::zero()));
    const int ready = ppoll(watched.data(), watched.size(), deadline ? &timeout : nullptr, nullptr);
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) throw Error(std::string{"poll failed: "} + std::strerror(errno));
  }
}

int SystemPlatform::open_event() {
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event < 0) throw Error(std::string{"eventfd failed: "} + std::strerror(errno));
  return event;
}

void SystemPlatform::set_event(int event) noexcept {
  const uint64_t one = 1;
  while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void SystemPlatform::clear_event(int event) noexcept {
  uint64_t count = 0;
  while (read(event, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

bool SystemPlatform::sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept {
  timespec until{};
  if (deadline) until = timespec_of(deadline->time_since_epoch());
  // The clock of FUTEX_WAIT_BITSET is that of steady_clock, and its time is absolute.
  const long slept = syscall(SYS_futex, &gate, FUTEX_WAIT_BITSET_PRIVATE, value,
                             deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return slept == 0 || errno != ETIMEDOUT;
}

void SystemPlatform::wake(Gate* gate) noexcept {
  syscall(SYS_futex, gate, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace sluicegate
