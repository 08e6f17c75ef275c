// A platform on which one thread of the client runs at a time, with a clock that stands still while
// one can run, and a network whose other end is the scripted server.
// Flow:   a thread enters a call of the platform -> the seed picks the thread that goes on ->
//         nobody can run: the clock moves on to the next deadline or event.
// Shape:  calls that the client makes without a lock may switch threads; the others do not.
// Errors: when nobody can ever run again, the process ends, and says which threads wait.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "clients/cpp/src/platform.hpp"
#include "surroundings.hpp"
#include "tests/property/seeds.hpp"

namespace sluicegate::simulation {

enum class Arrival : uint8_t { accepted, refused, silent };

// The server's side of the network.
struct Listener {
  virtual ~Listener() = default;
  virtual Arrival knock() = 0;
  virtual void accept(uint32_t connection) = 0;
  virtual void receive(uint32_t connection, std::string_view bytes) = 0;
  virtual void client_left(uint32_t connection) = 0;
};

class SimPlatform final : public Platform, public Surroundings {
 public:
  explicit SimPlatform(uint64_t seed);
  void listen(Listener& listener) { listener_ = &listener; }
  uint64_t switches() const noexcept { return switches_; }
  // Without a change of the thread: for what other threads would wait for in earnest.
  void run_undisturbed(const std::function<void()>& run) {
    ++undisturbed_;
    run();
    --undisturbed_;
  }
  // Nothing is to happen before: loops that look around every so often may do so less often.
  void set_due(Time due) noexcept { due_ = due; }
  // When an attempt to connect failed, the client closed a connection, or a thread stopped waiting:
  // the connector reports a connection that answered nothing only after its pause.
  const std::set<Time>& failures() const noexcept { return failures_; }
  // The shortest time from an attempt to connect that failed to the next one.
  Clock::duration shortest_pause() const noexcept { return shortest_pause_; }

  // ----------------------------------------------------------------------------- for the client
  Time now() noexcept override { return now_; }
  Time about_now() noexcept override;
  uint32_t random_seed() override { return static_cast<uint32_t>(dice_.below(UINT32_MAX)); }
  int connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout,
              const std::atomic<bool>* stop) override;
  ssize_t send(int socket, std::span<const std::byte> bytes) noexcept override;
  ssize_t receive(int socket, std::span<std::byte> room) noexcept override;
  void shut_down(int socket) noexcept override;
  void close(int socket) noexcept override;
  bool poll(std::span<pollfd> watched, Deadline deadline) override;
  int open_event() override;
  void set_event(int event) noexcept override { events_.at(event) = true; }
  void clear_event(int event) noexcept override { events_.at(event) = false; }
  bool sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept override;
  void wake(Gate* gate) noexcept override;
  void pause(Clock::duration length) override;
  std::thread start(std::function<void()> run) override;
  void join(std::thread& thread) override;

  // ----------------------------------------------------------------------------- for the server
  void after(Clock::duration delay, std::function<void()> event) override;
  void write(uint32_t connection, std::string bytes, std::function<void()> arrived) override;
  void close(uint32_t connection, bool at_once, std::function<void()> ended) override;

 private:
  struct Thread {
    Gate may_go{0};
    bool can_run = true;
    bool is_late = false;  // its deadline has passed
    bool has_ended = false;
    const char* waits_for = "";
    Gate* gate = nullptr;
    std::span<pollfd> watched{};
    Thread* joined = nullptr;
    Deadline deadline{};
    std::thread::id id{};
  };

  // The client's end of a connection.
  struct Socket {
    std::string inbound;
    bool has_ended = false;  // the server closed it
    bool is_reset = false;
    bool is_shut = false;  // by the client
    bool is_full = false;
    Time last_arrival{};
    uint32_t epoch = 0;  // bytes on their way of an earlier epoch are lost
  };

  static Thread*& self() noexcept;
  static void allow_to_go(Thread& thread) noexcept;
  static void wait_to_go(Thread& thread) noexcept;
  void yield() noexcept;
  bool block(const char* what, Deadline deadline) noexcept;  // false: at the deadline
  void go_on();
  Thread* pick();
  void move_clock();
  bool has_events(std::span<pollfd> watched);
  Time delayed(Time time) const noexcept { return time < due_ ? time + (due_ - time) / 2 : time; }
  short events_of(int socket, short wanted);
  void note_failed_attempt();
  [[noreturn]] void give_up();

  sluice::Dice dice_;
  Time now_{std::chrono::hours{1}};
  Listener* listener_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::multimap<Time, std::function<void()>> agenda_;
  std::map<int, Socket> sockets_;
  std::map<int, bool> events_;
  int next_descriptor_ = 1'000'000;  // none that the process has
  std::set<Time> failures_;
  std::optional<Time> attempt_failed_{};  // the last attempt, if it failed
  Clock::duration shortest_pause_ = Clock::duration::max();
  uint64_t switches_ = 0;
  uint32_t undisturbed_ = 0;
  Time due_{};
};

}  // namespace sluicegate::simulation
