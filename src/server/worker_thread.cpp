#include "server/worker_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace sluice::server {
namespace {

// Of the calling thread. A CPU may be gone, or forbidden by now: the worker runs without.
bool pin_to(int cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

}  // namespace

WorkerThread::WorkerThread(io::Backend backend, io::Options io_options, WorkerOptions options,
                           RequestIds& ids, WorkerPlace place)
    : thread_([this, backend, moved = std::move(io_options), options = std::move(options), &ids,
               place]() mutable { run(backend, std::move(moved), options, ids, place); }) {}

WorkerThread::~WorkerThread() {
  command(Command::stop);
  thread_.join();
}

void WorkerThread::command(Command command) noexcept {
  command_.store(command);
  const std::lock_guard lock(mutex_);
  if (io_ != nullptr) io_->wake();
}

bool WorkerThread::wait_drained(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return drained_; });
}

void WorkerThread::run(io::Backend backend, io::Options io_options, const WorkerOptions& options,
                       RequestIds& ids, WorkerPlace place) noexcept {
  try {
    pthread_setname_np(pthread_self(), ("shard-" + std::to_string(place.shard)).c_str());
    const bool pinned = place.cpu && pin_to(*place.cpu);
    const std::unique_ptr<io::Io> io = io::make_io(backend, std::move(io_options));
    Worker worker(*io, options, ids);
    worker.start();
    {
      const std::lock_guard lock(mutex_);
      io_ = io.get();
    }
    started_.set_value({.io_backend = std::string(io->name()),
                        .reserved_bytes = worker.reserved_bytes(),
                        .pinned = pinned});
    loop(worker);
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
    cut_off_.store(worker.statistics().cut_off);
    drained_ = true;
    changed_.notify_all();
  } catch (...) {
    started_.set_exception(std::current_exception());
  }
}

void WorkerThread::loop(Worker& worker) noexcept {
  while (!worker.drained()) {
    worker.turn(base::never_ns);
    const Command command = command_.load(std::memory_order_relaxed);
    if (command == Command::stop) return;
    if (command == Command::drain) worker.begin_drain();
  }
}

}  // namespace sluice::server
