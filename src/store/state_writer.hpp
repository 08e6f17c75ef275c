// The thread that writes the state: takes the cuts of all shards and commits them.
// Flow:   workers: hand_over() -> CutCollector -> EpochCommitter -> StateStore; after every commit
//         and every change of the status `wake` is called, on the writer's thread.
// Errors: epoch_committer.hpp.
// Bounds: one epoch at a time, in the workers' memory: a disk that is slow or full costs none.
// Lives:  stop() ends it. The destructor waits for its thread, which may hang in a system call:
//         after stop() has returned `hanging`, end the process by _Exit().
// Threads: hand_over() and statistics() by any; the others by the owner's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "io/clock.hpp"
#include "store/cut_collector.hpp"
#include "store/cut_sink.hpp"
#include "store/epoch_committer.hpp"

namespace sluice::store {

// How long the store may take to close, after the last commit.
inline constexpr std::chrono::milliseconds close_patience{2'000};

struct StateWriterOptions {
  uint32_t shards_count = 1;
  std::function<void()> wake = [] {};
  EpochCommitter::Clock clock = io::read_clock;
};

class StateWriter final : public CutSink {
 public:
  enum class End : uint8_t {
    clean,    // everything that was handed over is in the file, which is closed
    unclean,  // not so; the next start reads it as after a crash
    hanging,  // the thread has not ended
  };

  StateWriter(std::unique_ptr<StateStore> store, StateWriterOptions options);
  ~StateWriter() override;

  bool hand_over(const ShardCut& cut) noexcept override;
  const WriterStatistics& statistics() const noexcept override { return statistics_; }

  // Commits a whole batch that waits, trying at least once and for as long as `timeout`, then
  // closes the store. Cuts of an epoch that is not whole are dropped.
  End stop(std::chrono::milliseconds timeout);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void run() noexcept;
  bool wait_for_work(Lock& lock);
  void step(Lock& lock);
  void release() noexcept;
  void close(Lock& lock);

  const std::unique_ptr<StateStore> store_;
  const std::function<void()> wake_;
  const EpochCommitter::Clock clock_;
  WriterStatistics statistics_;
  EpochCommitter committer_;  // the thread's alone, as the next one
  bool tries_last_ = false;   // it was asked to stop, and tries once more

  std::mutex mutex_;  // of the members below
  std::condition_variable changed_;
  CutCollector collector_;  // complete: unchanged until the thread has released it
  bool accepts_ = true;
  int64_t stop_deadline_ns_ = base::never_ns;
  bool ended_ = false;
  bool clean_ = false;
  std::thread thread_;
};

}  // namespace sluice::store
