// The scripted server over real sockets, and a platform that disturbs the schedule of the client's
// threads: at each call of the platform a thread may yield or sleep for a moment, as the seed says.
// Shape:  connect() makes a pair of sockets; a thread of its own serves their other ends.
// Units:  the server's delays pass `faster` times as fast.
// Threads: a lock guards the server and its ledger.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "clients/cpp/src/platform.hpp"
#include "sim_platform.hpp"
#include "surroundings.hpp"

namespace sluicegate::simulation {

class RealNetwork final : public Surroundings {
 public:
  RealNetwork();
  ~RealNetwork() override;

  void start(Listener& listener);
  void stop();
  std::mutex& mutex() noexcept { return mutex_; }
  // The client's end; throws ConnectionLost.
  int connect();

  // With the lock, by the server.
  Time now() override { return Clock::now(); }
  void after(Clock::duration delay, std::function<void()> event) override;
  void write(uint32_t connection, std::string bytes, std::function<void()> arrived) override;
  void close(uint32_t connection, bool at_once, std::function<void()> ended) override;

 private:
  static constexpr int faster = 10;

  struct End {
    int socket = -1;
    std::string backlog{};
    bool is_closing = false;
    std::function<void()> ended{};
  };

  void run();
  void run_due();
  void read(uint32_t connection);
  void flush(uint32_t connection);
  void drop(uint32_t connection);

  Listener* listener_ = nullptr;
  std::mutex mutex_;
  std::multimap<Time, std::function<void()>> agenda_;
  std::map<uint32_t, End> ends_;  // by a number that no other connection has
  uint32_t next_connection_ = 1;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

class DisturbedPlatform final : public SystemPlatform {
 public:
  DisturbedPlatform(uint64_t seed, RealNetwork& network) : steps_{seed}, network_{network} {}

  uint32_t random_seed() override { return static_cast<uint32_t>(steps_.load()); }
  int connect(const std::string&, uint16_t, std::chrono::milliseconds,
              const std::atomic<bool>*) override {
    return network_.connect();
  }
  Clock::time_point about_now() noexcept override {
    disturb();
    return SystemPlatform::about_now();
  }
  ssize_t send(int socket, std::span<const std::byte> bytes) noexcept override;
  ssize_t receive(int socket, std::span<std::byte> room) noexcept override;
  bool poll(std::span<pollfd> watched, Deadline deadline) override;
  void set_event(int event) noexcept override;
  bool sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept override;
  void wake(Gate* gate) noexcept override;

 private:
  void disturb() noexcept;

  std::atomic<uint64_t> steps_;
  RealNetwork& network_;
};

}  // namespace sluicegate::simulation
