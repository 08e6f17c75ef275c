// A server that the load tool starts for itself and ends again.
// Flow:   fork, pin, exec of our own binary -> its last start-up log line -> ports -> SIGTERM.
// Errors: std::runtime_error with the server's last line when it does not come up.
// Lives:  the destructor ends the server and waits for it; the kernel does when we are killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::load {

class OwnServer {
 public:
  // `arguments` are flags of the server, beside the ports; no `cpus`: wherever the kernel puts it.
  OwnServer(const std::vector<std::string>& arguments, const std::vector<int>& cpus);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  pid_t pid() const noexcept { return pid_; }
  uint16_t native_port() const noexcept { return native_port_; }

  // Throws away what it logged since, lest it waits for us to read.
  void discard_log() noexcept;

 private:
  void wait_until_ready();
  void stop() noexcept;

  pid_t pid_ = -1;
  int log_ = -1;
  uint16_t native_port_ = 0;
};

// Pins this process to one core; throws std::runtime_error when there is no such core.
void pin_to_cpu(int cpu);

}  // namespace sluice::load
