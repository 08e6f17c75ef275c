// Which kernel back end works here, found out by trying.
// Flow:   --io -> probe_uring() -> make_io(), once per worker, on the worker's own thread.
// Errors: why_not names the cause and the cure in one line; make_io() throws std::runtime_error
//         (of make_io(uring): that line).
#pragma once

#include <memory>
#include <string>

#include "base/io_backend.hpp"
#include "io/io.hpp"
#include "io/options.hpp"

namespace sluice::io {

// Sets up a small ring, receives bytes through a buffer ring and wakes itself. Empty: all of it
// worked. Otherwise why not, and what to do.
std::string probe_uring();

struct Choice {
  base::IoBackend backend = base::IoBackend::epoll;  // uring or epoll
  std::string warning;  // one line for the log when `automatic` fell back; else empty
};

// Decides for the whole process, before workers start. Throws where `uring` was asked for and
// does not work.
Choice choose_backend(base::IoBackend wanted);

// `backend` as chosen. Call it on the thread that polls.
std::unique_ptr<Io> make_io(base::IoBackend backend, Options options);

}  // namespace sluice::io
