#include "server/worker_thread.hpp"

#include <utility>

namespace sluice::server {

WorkerThread::WorkerThread(io::Backend backend, io::Options io_options, WorkerOptions options,
                           RequestIds& ids)
    : thread_([this, backend, moved = std::move(io_options), options = std::move(options),
               &ids]() mutable { run(backend, std::move(moved), options, ids); }) {}

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
                       RequestIds& ids) noexcept {
  try {
    const std::unique_ptr<io::Io> io = io::make_io(backend, std::move(io_options));
    Worker worker(*io, options, ids);
    worker.start();
    {
      const std::lock_guard lock(mutex_);
      io_ = io.get();
    }
    started_.set_value(
        {.io_backend = std::string(io->name()), .reserved_bytes = worker.reserved_bytes()});
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
