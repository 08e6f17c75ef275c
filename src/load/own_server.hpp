// A server that the load tool starts for its run and then ends.
// Flow:   fork, pin, exec of our own binary -> its last start-up log line -> ports -> SIGTERM.
// Errors: std::runtime_error with the server's last line when it does not come up.
// Lives:  the destructor ends the server and waits for it; the kernel ends it when we are killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::load {

class OwnServer {
 public:
  // `arguments` are flags of the server besides the ports; empty `cpus`: the kernel chooses.
  OwnServer(const std::vector<std::string>& arguments, const std::vector<int>& cpus,
            std::chrono::milliseconds start_time_max = std::chrono::seconds(20));
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  pid_t pid() const noexcept { return pid_; }
  uint16_t native_port() const noexcept { return native_port_; }

  // Discards the lines logged since the last call, so that the server never blocks on a full pipe.
  void discard_log() noexcept;

 private:
  void wait_until_ready(std::chrono::milliseconds start_time_max);
  void stop() noexcept;

  pid_t pid_ = -1;
  int log_ = -1;
  uint16_t native_port_ = 0;
};

// Pins this process to one core; throws std::runtime_error when the core does not exist.
void pin_to_cpu(int cpu);

}  // namespace sluice::load
