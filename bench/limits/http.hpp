// An HTTP server that only answers: one thread, epoll, the same 200 for every request.
// Flow:   recv() -> one answer per received empty line -> one send().
// Shape:  a request ends at its empty line; the server expects no bodies and parses nothing.
// Errors: std::system_error for its own sockets; a client's fault ends its connection.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

// Serves on 127.0.0.1 until SIGINT, SIGTERM, or the end of `run.seconds`. Calls `on_port` with the
// port as soon as it accepts connections; `port` 0 selects a free one.
Report run_http(const Run& run, uint16_t port, const std::function<void(uint16_t)>& on_port);

}  // namespace sluice::limits_bench
