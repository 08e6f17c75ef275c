// Connections over loopback whose two ends are in this process, and threads of one core.
// Errors: std::system_error.
#pragma once

#include <cstdint>
#include <vector>

#include "io/file_descriptor.hpp"

namespace sluice::limits_bench {

// TCP, without Nagle's algorithm on either side; both ends block.
struct Pair {
  io::FileDescriptor client;
  io::FileDescriptor server;
};

std::vector<Pair> connect_pairs(uint32_t count);

// Tells the server's ends that nothing follows.
void end_clients(const std::vector<Pair>& pairs);

void make_nonblocking(int fd);

// send() and recv() fail with EAGAIN after so long, instead of waiting for ever.
void limit_waits(int fd, double seconds);

// Pins the calling thread; does nothing for a negative `cpu`.
void pin_if_asked(int cpu);

[[noreturn]] void throw_errno(const char* what);

}  // namespace sluice::limits_bench
