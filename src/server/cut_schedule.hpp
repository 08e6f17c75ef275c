// When all shards cut what survives a restart: one epoch after the other.
// Flow:   a worker whose shard has changes: begin() -> the others see it by epoch(), and cut before
//         they read what a shard sent that has cut already -> CutSink -> the epoch is released ->
//         the next one.
// Shape:  the next epoch begins not before the interval since the last one, nor before the writer
//         has released that, nor before 50 times the time that handing it over took: the state
//         costs a worker 2 % at most. Where somebody waits for a commit, it begins earlier.
//         A lap over everything that lives begins when the log is one and a half times that: when
//         it ends, the file is two and a half times what lives.
// Lives:  one for all workers, outlives them.
// Threads: any worker. What belongs to an epoch is written before its number (release).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/time.hpp"
#include "store/cut_sink.hpp"

namespace sluice::server {

struct CutScheduleOptions {
  uint32_t shards = 1;
  int64_t interval_ns = 100 * base::ns_per_ms;
  uint64_t last_epoch = 0;            // in the file
  uint64_t log_bytes_min = 32 << 20;  // below them no lap begins
};

class CutSchedule {
 public:
  CutSchedule(store::CutSink& sink, const CutScheduleOptions& options);

  store::CutSink& sink() noexcept { return sink_; }
  const store::WriterStatistics& statistics() const noexcept { return sink_.statistics(); }

  // The last of an earlier start: every shard has cut for it, and for none after it.
  uint64_t stored_epoch() const noexcept { return options_.last_epoch; }
  // The last that has begun.
  uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  // Whether a lap begins with it.
  bool begins_lap() const noexcept { return begins_lap_.load(std::memory_order_relaxed); }
  // Whether it has everything that lives, so that the lap that is under way is over.
  bool is_whole() const noexcept { return is_whole_.load(std::memory_order_relaxed); }
  // Whether somebody waits for its commit.
  bool is_awaited() const noexcept { return is_awaited_.load(std::memory_order_relaxed); }
  // Whether it is the last of a clean stop.
  bool is_last() const noexcept { return is_last_.load(std::memory_order_relaxed); }
  // The epochs that begin from now on are the last ones of a clean stop: they end the lap. Returns
  // the first of them.
  uint64_t end_lap() noexcept;

  // Begins the next epoch if it may begin now. True: it has, and the other workers are to be woken.
  bool begin(int64_t now_ns) noexcept;
  // When it may; base::never_ns: not before the writer has released the last.
  int64_t due_ns() const noexcept;
  // Somebody waits for the commit of this epoch, the next one.
  void want(uint64_t epoch) noexcept;
  bool is_wanted() const noexcept {
    return wanted_epoch_.load(std::memory_order_relaxed) > epoch();
  }

  // A shard has handed over the present epoch.
  struct HandedOver {
    int64_t took_ns = 0;
    uint64_t complete_since = 0;  // its records (quota::CutFacts)
    uint64_t alive_bytes = 0;     // of all records that a lap would write, about
  };
  void note_handed_over(uint32_t shard, const HandedOver& cut) noexcept;

  // A shard has changes that no cut has yet.
  void note_changes(int64_t now_ns) noexcept {
    int64_t none = 0;
    if (changed_ns_.load(std::memory_order_relaxed) == 0) {
      changed_ns_.compare_exchange_strong(none, now_ns, std::memory_order_relaxed);
    }
  }
  // Since the first change that is not durable; 0: everything is.
  int64_t behind_ns(int64_t now_ns) const noexcept;
  // Whether everything that was cut is durable.
  bool is_committed() const noexcept { return is_durable(epoch()); }
  bool is_durable(uint64_t epoch) const noexcept {
    return epoch <= options_.last_epoch || statistics().is_durable(epoch);
  }

  // Whether a change that is made now will become durable soon, as far as is known.
  bool may_promise(int64_t now_ns) const noexcept;
  // True once in an epoch whose commit takes longer than any that ends: the disk hangs.
  bool notice_hang(int64_t now_ns) noexcept;

 private:
  // The last epoch. Before this start's first there is none.
  bool is_released() const noexcept {
    const uint64_t last = epoch();
    return last == options_.last_epoch ||
           statistics().released_epoch.load(std::memory_order_acquire) >= last;
  }
  int64_t not_before_ns() const noexcept;
  bool hangs(int64_t now_ns) const noexcept;
  void plan_lap(uint64_t epoch) noexcept;

  store::CutSink& sink_;
  const CutScheduleOptions options_;
  std::mutex mutex_;  // of who begins the next epoch; workers never wait for it
  std::atomic<uint64_t> epoch_;
  std::atomic<int64_t> begun_ns_{0};
  std::atomic<int64_t> changed_ns_{0};      // the first change that is not cut; 0: none is noted
  std::atomic<int64_t> cut_changed_ns_{0};  // that of the present epoch
  std::atomic<int64_t> took_ns_{0};         // the longest of all shards, of the present epoch
  std::atomic<uint64_t> wanted_epoch_{0};
  std::atomic<bool> begins_lap_{false};
  std::atomic<bool> is_whole_{false};
  std::atomic<bool> is_last_{false};
  std::atomic<bool> is_awaited_{false};
  std::atomic<uint64_t> hung_epoch_{0};  // the last that was noticed
  struct Shard {
    std::atomic<uint64_t> complete_since{0};
    std::atomic<uint64_t> alive_bytes{0};
  };
  std::unique_ptr<Shard[]> shards_;
  // Of who has the mutex.
  uint64_t lap_epoch_ = 0;  // in which the present lap began; 0: none is under way
  bool ends_lap_ = false;
};

}  // namespace sluice::server
