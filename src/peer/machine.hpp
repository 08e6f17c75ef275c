// What find_own_place() asks of the machine: names, addresses, time. Tests have machines of their
// own.
// Lives:  start only; resolve() may wait for seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "io/clock.hpp"
#include "io/host_addresses.hpp"

namespace sluice::peer {

class Machine {
 public:
  virtual std::string host_name() = 0;
  virtual std::vector<io::IpAddress> local_addresses() = 0;
  virtual io::ResolvedHost resolve(const std::string& name) = 0;
  virtual int64_t now_ns() = 0;
  virtual void sleep_ns(int64_t time_ns) = 0;

 protected:
  ~Machine() = default;
};

// The one that this process runs on.
class ThisMachine final : public Machine {
 public:
  std::string host_name() override { return io::host_name(); }
  std::vector<io::IpAddress> local_addresses() override { return io::local_addresses(); }
  io::ResolvedHost resolve(const std::string& name) override { return io::resolve_host(name); }
  int64_t now_ns() override { return io::read_clock().monotonic_ns; }
  void sleep_ns(int64_t time_ns) override {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time_ns));
  }
};

}  // namespace sluice::peer
