// Where a shard's worker hands over its cuts, and reads what became of them.
// Flow:   worker: hand_over() -> statistics(): the epoch is durable, or its memory is released.
// Bounds: one epoch at a time: a shard hands over its next cut when the last epoch was released.
// Lives:  what a cut points to must live until `released_epoch` has reached its epoch.
// Threads: hand_over() by each shard's worker; it waits for no disk.
#pragma once

#include "store/state_store.hpp"
#include "store/writer_statistics.hpp"

namespace sluice::store {

class CutSink {
 public:
  virtual ~CutSink() = default;

  // False: nothing is written any more (failed, stopped), and nothing of the cut is kept.
  virtual bool hand_over(const ShardCut& cut) noexcept = 0;
  virtual const WriterStatistics& statistics() const noexcept = 0;
};

}  // namespace sluice::store
