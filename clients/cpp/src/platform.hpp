// The client's seam to the machine: clocks, sockets, and threads that wait for each other. Part of
// Client and Connection.
// Shape:  real_platform() makes the system calls; tests have platforms of their own, with a clock
//         and a server that they control (tests/simulation/client).
// Errors: send() and receive() as the system calls, -1 with errno; the others throw Error.
// Threads: all of them.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

namespace sluicegate {

class Platform {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;  // nothing: never
  using Gate = std::atomic<uint32_t>;

  Platform() = default;
  virtual ~Platform() = default;
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;

  // ------------------------------------------------------------------------------ clock, chance
  virtual Clock::time_point now() noexcept = 0;
  // For deadlines of calls that do not block: cheap, and at most a tick late.
  virtual Clock::time_point about_now() noexcept = 0;
  virtual uint32_t random_seed() = 0;

  // ------------------------------------------------------------------------------------ sockets
  // A non-blocking socket. When `stop` becomes true, the attempt ends soon with TimedOut.
  virtual int connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout,
                      const std::atomic<bool>* stop) = 0;
  virtual ssize_t send(int socket, std::span<const std::byte> bytes) noexcept = 0;
  virtual ssize_t receive(int socket, std::span<std::byte> room) noexcept = 0;
  // Ends both directions, and wakes the threads that poll the socket.
  virtual void shut_down(int socket) noexcept = 0;
  // Also of an event.
  virtual void close(int socket) noexcept = 0;
  // Waits for events of poll(); false, and no event, at the deadline.
  virtual bool poll(std::span<pollfd> watched, Deadline deadline) = 0;

  // An event is readable from set_event() to clear_event().
  virtual int open_event() = 0;
  virtual void set_event(int event) noexcept = 0;
  virtual void clear_event(int event) noexcept = 0;

  // ------------------------------------------------------------------------------------ threads
  // Sleeps while the gate has this value; false at the deadline. May return early.
  virtual bool sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept = 0;
  // Wakes the threads that sleep at the gate, which may be gone by now.
  virtual void wake(Gate* gate) noexcept = 0;
  virtual void pause(Clock::duration length) = 0;
  virtual std::thread start(std::function<void()> run) = 0;
  virtual void join(std::thread& thread) = 0;
};

class SystemPlatform : public Platform {
 public:
  Clock::time_point now() noexcept override { return Clock::now(); }
  Clock::time_point about_now() noexcept override;
  uint32_t random_seed() override;
  int connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout,
              const std::atomic<bool>* stop) override;
  ssize_t send(int socket, std::span<const std::byte> bytes) noexcept override;
  ssize_t receive(int socket, std::span<std::byte> room) noexcept override;
  void shut_down(int socket) noexcept override;
  void close(int socket) noexcept override;
  bool poll(std::span<pollfd> watched, Deadline deadline) override;
  int open_event() override;
  void set_event(int event) noexcept override;
  void clear_event(int event) noexcept override;
  bool sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept override;
  void wake(Gate* gate) noexcept override;
  void pause(Clock::duration length) override { std::this_thread::sleep_for(length); }
  std::thread start(std::function<void()> run) override { return std::thread{std::move(run)}; }
  void join(std::thread& thread) override { thread.join(); }
};

}  // namespace sluicegate
