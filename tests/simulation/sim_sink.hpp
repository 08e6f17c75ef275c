// The writer of the state in a simulation: CutCollector and EpochCommitter as StateWriter has them,
// with the simulation's clock in place of a thread.
// Flow:   workers -> hand_over() -> step(), now and then -> SimStore -> the workers are woken.
// Shape:  a whole batch waits for a drawn time, as it would for a thread and a disk; a crash finds
//         it not begun, within its commit, or done and unknown to the workers.
// Lives:  one for each start of the workers, outlives them.
#pragma once

#include <functional>

#include "base/time.hpp"
#include "io/sim/random.hpp"
#include "sim_store.hpp"
#include "store/cut_collector.hpp"
#include "store/cut_sink.hpp"
#include "store/epoch_committer.hpp"

namespace sluice::simulation {

class SimSink final : public store::CutSink {
 public:
  struct Hooks {
    std::function<base::Now()> clock;
    std::function<void()> wake;  // all workers
  };

  SimSink(io::Random& random, SimStore& store, uint32_t shards, Hooks hooks);

  // As in store::CutSink.
  bool hand_over(const store::ShardCut& cut) noexcept override;
  const store::WriterStatistics& statistics() const noexcept override { return statistics_; }

  void step();
  int64_t due_ns() const;
  // Commits take no time from now on.
  void calm() { slowest_ns_ = 0; }
  // The machine stops, or the process: before the workers are destroyed.
  void crash();

 private:
  void release();

  io::Random& random_;
  SimStore& store_;
  const Hooks hooks_;
  store::WriterStatistics statistics_;
  store::EpochCommitter committer_;
  store::CutCollector collector_;
  int64_t slowest_ns_;
  int64_t begins_ns_ = 0;  // the commit of the batch
  int64_t ends_ns_ = 0;
};

}  // namespace sluice::simulation
