// Commits batches to a store, and decides what follows when that fails.
// Flow:   StateWriter, on its thread, or a simulation: step() whenever due_ns() has come.
// States: writer_statistics.hpp. Failures that may pass are tried again after 0.1 to 5 s; the batch
//         stays with its owner meanwhile. After an fsync that failed the store is reopened first,
//         workers write everything anew, and nothing older is deleted before they have.
// Errors: an outage is one ERROR for each of its kinds, and one INFO at its end.
// Threads: one at a time; reads no clock but the one that it is given.
#pragma once

#include <cstdint>
#include <functional>

#include "base/time.hpp"
#include "store/state_store.hpp"
#include "store/writer_statistics.hpp"

namespace sluice::store {

inline constexpr int64_t retry_pause_ns_min = 100 * base::ns_per_ms;
inline constexpr int64_t retry_pause_ns_max = 5 * base::ns_per_s;

// When something that has failed is tried again.
class RetryPause {
 public:
  void failed(int64_t now_ns) noexcept;
  void worked() noexcept { *this = {}; }
  void end() noexcept { due_ns_ = 0; }  // the next failure pauses longer all the same
  bool is_failing() const noexcept { return pause_ns_ != 0; }
  int64_t due_ns() const noexcept { return due_ns_; }  // 0: at any time

 private:
  int64_t pause_ns_ = 0;
  int64_t due_ns_ = 0;
};

class EpochCommitter {
 public:
  using Clock = std::function<base::Now()>;
  enum class Outcome : uint8_t {
    idle,       // there was no batch
    committed,  // it is durable
    waiting,    // it is to be passed again
    failed,     // nothing is written any more
  };

  EpochCommitter(StateStore& store, WriterStatistics& statistics, Clock clock);

  // With a batch or, to go on with what has failed, without (null).
  Outcome step(const Batch* batch);
  // When step() has something to do; base::never_ns: not before there is a batch.
  int64_t due_ns(bool has_batch) const noexcept;
  // At once, whatever pause there is.
  void try_now() noexcept { commit_pause_.end(); }

  // The end; true: the store is closed cleanly.
  bool close();

 private:
  Outcome reopen_and_commit(const Batch* batch);
  uint64_t allowed(uint64_t delete_before, uint64_t deleted_before) const noexcept;
  Result<void> commit(const Batch& batch);
  void publish(const Batch& batch, int64_t took_ns);
  void tidy();
  void fail(const Failure& failure, uint64_t epoch, RetryPause& pause);
  void report_failure(const Failure& failure, uint64_t epoch);
  void report_recovery();

  WriterStatus status() const noexcept;
  int64_t now_ns() const { return clock_().monotonic_ns; }

  StateStore& store_;
  WriterStatistics& statistics_;
  const Clock clock_;
  RetryPause commit_pause_;
  RetryPause tidy_pause_;
  bool must_reopen_ = false;
  uint64_t distrusted_epoch_ = 0;  // parts up to this one may be missing on the disk
  uint64_t deleted_before_epoch_ = 0;
  uint64_t deleted_windows_before_epoch_ = 0;
  int64_t outage_begin_ns_ = 0;
  uint32_t reported_kinds_ = 0;  // bits; 0: there is no outage
};

}  // namespace sluice::store
