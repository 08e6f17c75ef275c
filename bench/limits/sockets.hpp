// Loopback connections with both ends in this process, and threads pinned to one core.
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

io::FileDescriptor connect_to(uint16_t port);

std::vector<Pair> connect_pairs(uint32_t count);

// Shuts down the clients' sending, so that the servers' ends read an end of stream.
void end_clients(const std::vector<Pair>& pairs);

void make_nonblocking(int fd);

// Makes send() and recv() fail with EAGAIN after `seconds`, instead of waiting for ever.
void limit_waits(int fd, double seconds);

// Pins the calling thread; does nothing for a negative `cpu`.
void pin_if_asked(int cpu);

[[noreturn]] void throw_errno(const char* what);

}  // namespace sluice::limits_bench
