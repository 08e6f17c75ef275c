#include "server/worker_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace sluice::server {
namespace {

// Pins the calling thread. The CPU may be gone, or forbidden by now: then the worker runs unpinned.
bool pin_to(int cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

}  // namespace

WorkerThread::WorkerThread(io::Choice choice, io::Options io_options, WorkerOptions options,
                           WorkerGroup& worker_group, WorkerPlace place)
    : thread_([this, choice = std::move(choice), moved = std::move(io_options),
               options = std::move(options), &worker_group,
               place]() mutable { run(choice, std::move(moved), options, worker_group, place); }) {}

WorkerThread::~WorkerThread() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    may_end_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkerThread::command(Command command) noexcept {
  {
    const std::lock_guard lock(mutex_);
    command_.store(command);
  }
  changed_.notify_all();
  wake();
}

void WorkerThread::wake() noexcept {
  const std::lock_guard lock(mutex_);
  if (io_ != nullptr) io_->wake();
}

void WorkerThread::adopt(std::unique_ptr<policy::RuleBook> rules) noexcept {
  rules_.put(std::move(rules));
  wake();
}

void WorkerThread::stop() noexcept {
  command(Command::stop);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped_; });
}

bool WorkerThread::wait_drained(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return drained_; });
}

void WorkerThread::run(const io::Choice& choice, io::Options io_options,
                       const WorkerOptions& options, WorkerGroup& worker_group,
                       WorkerPlace place) noexcept {
  bool started = false;
  try {
    pthread_setname_np(pthread_self(), ("shard-" + std::to_string(place.shard)).c_str());
    const bool pinned = place.cpu && pin_to(*place.cpu);
    const auto [io, io_warnings] = io::make_io(choice, std::move(io_options));
    Deciders deciders = make_deciders(options);
    quota::Restored restored = restore(options, *deciders.quotas, io->now());
    Worker worker(*io, options, worker_group, std::move(deciders));
    const RestoredWindows windows = worker.restore_windows();
    worker.hand_over(std::exchange(restored.moved_quotas, {}));
    {
      const std::lock_guard lock(mutex_);
      io_ = io.get();
    }
    started = true;
    started_.set_value({.io_backend = std::string(io->name()),
                        .io_warnings = io_warnings,
                        .reserved_bytes = worker.reserved_bytes(),
                        .pinned = pinned,
                        .restored = std::move(restored),
                        .windows = windows});
    if (wait_begin()) {
      worker.start();
      loop(worker);
      worker.close_sessions();
    }
    std::unique_lock lock(mutex_);
    io_ = nullptr;
    stopped_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return may_end_; });
  } catch (...) {
    if (!started) started_.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
}

void WorkerThread::begin() noexcept {
  const std::lock_guard lock(mutex_);
  may_begin_ = true;
  changed_.notify_all();
}

// False: it is stopped before.
bool WorkerThread::wait_begin() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return may_begin_ || command_.load() == Command::stop; });
  return may_begin_;
}

void WorkerThread::loop(Worker& worker) noexcept {
  while (true) {
    worker.turn(base::never_ns);
    if (rules_.full()) {
      rules_.take([&worker](std::unique_ptr<policy::RuleBook> rules) {
        return worker.adopt(std::move(rules));
      });
    }
    const Command command = command_.load(std::memory_order_relaxed);
    if (command == Command::stop) return;
    if (command != Command::drain) continue;
    worker.begin_drain();
    set_drained(worker);
  }
}

// A connection that another worker hands over at the last moment makes it undrained again.
void WorkerThread::set_drained(const Worker& worker) noexcept {
  force_closed_.store(worker.statistics().force_closed);
  const std::lock_guard lock(mutex_);
  if (drained_ == worker.drained()) return;
  drained_ = worker.drained();
  changed_.notify_all();
}

}  // namespace sluice::server
