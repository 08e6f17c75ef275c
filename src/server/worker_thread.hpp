// One worker on its thread: builds its Io and Worker there, as io_uring's single issuer must, and
// after it is pinned, so that memory is taken near its core.
// Errors: when the thread cannot build them, wait_started() throws, on the starter's thread.
// Lives:  the loop runs until stop(), also when drained: other workers may need its shard. Its Io,
//         which they wake, lives until the destructor, which joins the thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/probe.hpp"
#include "server/swap_slot.hpp"
#include "server/worker.hpp"

namespace sluice::server {

struct WorkerPlace {
  uint32_t shard = 0;      // names the thread: shard-0
  std::optional<int> cpu;  // to be pinned to; empty: the kernel chooses
};

struct WorkerStarted {
  std::string io_backend;
  std::vector<std::string> io_warnings;
  uint64_t reserved_bytes;
  bool pinned;  // false also when the kernel did not allow it
  // Of an earlier start.
  quota::Restored restored;
  RestoredWindows windows;
};

class WorkerThread {
 public:
  WorkerThread(io::Choice choice, io::Options io_options, WorkerOptions options,
               WorkerGroup& worker_group, WorkerPlace place = {});
  ~WorkerThread();

  // Until it has loaded its share of the state.
  WorkerStarted wait_started() { return started_.get_future().get(); }
  // Accepts from now on, and turns; called when all workers have loaded theirs.
  void begin() noexcept;

  void drain() noexcept { command(Command::drain); }
  bool wait_drained(std::chrono::milliseconds timeout);
  uint64_t force_closed_count() const noexcept { return force_closed_.load(); }

  // New rules, which the worker takes between two turns; they replace rules that it has not taken
  // yet.
  void adopt(std::unique_ptr<policy::RuleBook> rules) noexcept;
  // Destroys the rules that the worker has replaced, which may take a while.
  void tidy() noexcept { rules_.tidy(); }

  // Ends the loop; returns when it has made its last turn.
  void stop() noexcept;

 private:
  enum class Command : uint8_t { none, drain, stop };

  void command(Command command) noexcept;
  void wake() noexcept;
  void run(const io::Choice& choice, io::Options io_options, const WorkerOptions& options,
           WorkerGroup& worker_group, WorkerPlace place) noexcept;
  bool wait_begin() noexcept;
  void loop(Worker& worker) noexcept;
  void set_drained(const Worker& worker) noexcept;

  std::promise<WorkerStarted> started_;
  std::atomic<Command> command_{Command::none};
  std::atomic<uint64_t> force_closed_{0};
  SwapSlot<policy::RuleBook> rules_;
  std::mutex mutex_;  // of the members below; never locked while serving
  std::condition_variable changed_;
  io::Io* io_ = nullptr;  // to wake the worker; null before the loop and after it
  bool may_begin_ = false;
  bool drained_ = false;
  bool stopped_ = false;  // the loop is over, or never began
  bool may_end_ = false;
  std::thread thread_;
};

}  // namespace sluice::server
