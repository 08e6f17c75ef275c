// What the scripted server needs from its surroundings: a clock, timers, and connections.
// Shape:  the simulation's network has simulated time and splits bytes at will; the threads' test
//         has real sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace sluicegate::simulation {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual Time now() = 0;
  virtual void after(Clock::duration delay, std::function<void()> event) = 0;
  // `arrived` is called once the client could read all of it; never if the connection breaks first.
  virtual void write(uint32_t connection, std::string bytes, std::function<void()> arrived) = 0;
  // `at_once`: bytes on their way are lost. `ended` is called when the client could notice.
  virtual void close(uint32_t connection, bool at_once, std::function<void()> ended) = 0;
};

}  // namespace sluicegate::simulation
