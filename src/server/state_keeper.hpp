// Hands over what survives a restart, of one shard: in cuts, each as of one instant for all shards.
// Flow:   keep() once a turn: an epoch begins, the store's records go into parts, some a turn, and
//         then those of windows (WindowKeeper) -> the writer's CutSink. before_message() cuts when
//         another shard has begun an epoch.
// Shape:  the cut of an epoch has nothing that depends on what another shard did after its own:
//         what that shard sends is only read behind the cut (Chandy and Lamport, 1985). The
//         schedule's number of the epoch is written before a shard cuts, and so before it sends.
// Errors: the constructor throws when memory cannot be had. When nothing is written any more, there
//         are no cuts.
// Bounds: one cut at a time, in memory that is reserved at the start.
// Lives:  one per worker, one thread only. What it has handed over stays until the schedule's next
//         epoch.
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.hpp"
#include "quota/quota_decider.hpp"
#include "quota/quota_store.hpp"
#include "server/cut_views.hpp"
#include "server/shard_statistics.hpp"
#include "server/state_options.hpp"
#include "server/window_keeper.hpp"
#include "state/part_builder.hpp"

namespace sluice::server {

class StateKeeper {
 public:
  // `store` are the options of the shard's store.
  StateKeeper(const StateOptions& options, const quota::Options& store, quota::QuotaDecider& quotas,
              WindowKeeper& windows);

  bool is_on() const noexcept { return schedule_ != nullptr; }
  uint32_t parked_tasks_max() const noexcept { return is_on() ? options_.parked_tasks_max : 0; }

  // Before anything is read that another shard has sent.
  void before_message() noexcept {
    if (is_on() && schedule_->epoch() != epoch_) begin_cut();
  }

  // A turn's share of the work, after so many quota calls. True: an epoch has begun, and the other
  // shards are to be woken.
  bool keep(base::Now now, uint64_t calls) noexcept;
  // When there is something to do, if nothing happens before; the writer wakes all workers when it
  // has released an epoch.
  int64_t due_ns() const noexcept;

  // ---- for calls that are answered when they are durable
  // Whether what is changed now is likely to become durable.
  bool may_promise(base::Now now) const noexcept {
    return schedule_->may_promise(now.monotonic_ns);
  }
  // The epoch that has all that this shard has changed so far.
  uint64_t epoch_of_changes() const noexcept { return epoch_ + (quotas_.has_changes() ? 1 : 0); }
  void want(uint64_t epoch) noexcept { schedule_->want(epoch); }
  bool is_durable(uint64_t epoch) const noexcept { return schedule_->is_durable(epoch); }

  bool has_changes() const noexcept { return is_on() && quotas_.has_changes(); }
  void add_statistics(ProcessStatistics& statistics, base::Now now) const noexcept;
  uint64_t reserved_bytes() const noexcept { return builder_ ? builder_->reserved_bytes() : 0; }

 private:
  bool has_reason() const noexcept;
  uint32_t turn_records(uint64_t calls) const noexcept;
  void begin_cut() noexcept;
  bool write_some(uint32_t records, base::Now now) noexcept;
  void log_hang(base::Now now) noexcept;
  void hand_over(base::Now now) noexcept;
  int64_t cost_ns() const noexcept;
  state::MachineTime machine_time_of(base::Now now) const noexcept;
  void finish_parts(base::Now now, const quota::CutFacts& facts) noexcept;

  CutSchedule* const schedule_;
  const StateOptions options_;
  const uint32_t shard_;
  const uint32_t shards_;
  quota::QuotaDecider& quotas_;
  WindowKeeper& windows_;
  std::unique_ptr<state::PartBuilder> builder_;
  uint64_t epoch_ = 0;  // of the last cut, or the one that is under way
  bool is_under_way_ = false;
  bool has_quotas_left_ = false;
  int64_t now_ns_ = 0;          // of the last turn's step
  int64_t took_ns_ = 0;         // of the thread's time: the present cut's shares of turns
  uint64_t shares_count_ = 0;   // of records, in them
  uint64_t record_bytes_ = 64;  // of a record, as in the last cut that had many
  uint64_t rewrites_ = 0;
  bool writes_all_ = false;  // the first cut, with another number of shards than the file's
  // What the writer gets.
  CutViews views_;
};

}  // namespace sluice::server
