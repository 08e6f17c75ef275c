// Collects the cuts of all shards for one epoch, until they are a whole batch.
// Bounds: one epoch at a time: a shard cuts again when the batch was taken.
// Lives:  the cuts' memory is the shards'. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/state_store.hpp"

namespace sluice::store {

class CutCollector {
 public:
  explicit CutCollector(uint32_t shards_count);

  // Each shard once an epoch. True: that was the last one.
  bool add(const ShardCut& cut) noexcept;
  bool is_complete() const noexcept { return missing_count_ == 0; }
  uint64_t epoch() const noexcept { return epoch_; }  // 0: no cut has come

  // Of complete cuts; it lives until clear().
  Batch batch() const noexcept;
  void clear() noexcept;

 private:
  std::vector<ShardCut> cuts_;  // by shard
  std::vector<bool> has_;
  uint32_t missing_count_;
  uint64_t epoch_ = 0;
};

}  // namespace sluice::store
