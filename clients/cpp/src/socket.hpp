// A TCP connection within a time limit, over every address that a host name has.
// Errors: ConnectionLost with the cause of the last address; TimedOut.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "platform.hpp"

namespace sluicegate {

// Returns a non-blocking socket without Nagle's delay.
int connect_tcp(Platform& platform, const std::string& host, uint16_t port,
                std::chrono::milliseconds timeout, const std::atomic<bool>* stop = nullptr);

// Waits for `events` of poll(); false when the deadline has passed, or soon after `stop` has become
// true.
bool wait_for(Platform& platform, int socket, short events, Platform::Deadline deadline,
              const std::atomic<bool>* stop = nullptr);

}  // namespace sluicegate
