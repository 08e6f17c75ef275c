// An HTTP server that does nothing but answer: one thread, epoll, the same 200 for every request.
// Flow:   recv() -> as many answers as empty lines came -> one send().
// Shape:  a request ends at its empty line; bodies are not expected, nothing is parsed.
// Errors: std::system_error for its own sockets; a client's fault ends its connection.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

// Serves on 127.0.0.1 until SIGINT or SIGTERM comes, or `run.seconds` are over. `on_port` is told
// the port as soon as connections are accepted; 0 asks for a free one.
Report run_http(const Run& run, uint16_t port, const std::function<void(uint16_t)>& on_port);

}  // namespace sluice::limits_bench
