// One worker on its thread: builds its Io and Worker there, as io_uring's single issuer must, and
// after it is pinned, so that memory is taken near its core.
// Errors: what the thread cannot build is thrown by wait_started(), on the starter's thread.
// Lives:  the destructor stops the loop and joins.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "io/probe.hpp"
#include "server/worker.hpp"

namespace sluice::server {

struct WorkerPlace {
  uint32_t shard = 0;      // names the thread: shard-0
  std::optional<int> cpu;  // to stay on; nothing: wherever the kernel puts it
};

struct WorkerStarted {
  std::string io_backend;
  uint64_t reserved_bytes;
  bool pinned;  // false also when the kernel did not let it
};

class WorkerThread {
 public:
  WorkerThread(io::Backend backend, io::Options io_options, WorkerOptions options, RequestIds& ids,
               WorkerPlace place = {});
  ~WorkerThread();

  WorkerStarted wait_started() { return started_.get_future().get(); }

  void drain() noexcept { command(Command::drain); }
  bool wait_drained(std::chrono::milliseconds timeout);
  uint64_t cut_off_count() const noexcept { return cut_off_.load(); }

 private:
  enum class Command : uint8_t { none, drain, stop };

  void command(Command command) noexcept;
  void run(io::Backend backend, io::Options io_options, const WorkerOptions& options,
           RequestIds& ids, WorkerPlace place) noexcept;
  void loop(Worker& worker) noexcept;

  std::promise<WorkerStarted> started_;
  std::atomic<Command> command_{Command::none};
  std::atomic<uint64_t> cut_off_{0};
  std::mutex mutex_;  // of what follows; never taken while serving
  std::condition_variable changed_;
  io::Io* io_ = nullptr;  // to be woken; null when the loop is over
  bool drained_ = false;
  std::thread thread_;
};

}  // namespace sluice::server
