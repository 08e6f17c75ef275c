// Which kernel back end works here, found out by trying.
// Flow:   --io -> probe_uring() -> make_io(), once per worker, on the worker's own thread.
// Errors: why_not names the cause and the cure in one line; make_io() throws std::runtime_error
//         (where io_uring was asked for: that line).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/io_backend.hpp"
#include "io/io.hpp"
#include "io/options.hpp"

namespace sluice::io {

// Sets up a small ring, receives bytes through a buffer ring and wakes itself. Empty: all of it
// worked. Otherwise why not, and what to do.
std::string probe_uring();

struct Choice {
  base::IoBackend backend = base::IoBackend::epoll;  // uring or epoll
  std::string warning;         // one line for the log when `automatic` fell back; else empty
  bool may_fall_back = false;  // a worker whose own ring cannot be set up goes on with epoll
};

struct MadeIo {
  std::unique_ptr<Io> io;
  std::vector<std::string> warnings = {};  // as in Choice; and where epoll waits coarsely
};

// Decides for the whole process, before workers start. Throws where `uring` was asked for and
// does not work.
Choice choose_backend(base::IoBackend wanted);

// The back end as chosen. Call it on the thread that polls.
MadeIo make_io(const Choice& choice, Options options);

}  // namespace sluice::io
