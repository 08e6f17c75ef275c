#include "store/cut_collector.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::store {

CutCollector::CutCollector(uint32_t shards_count)
    : cuts_(shards_count), has_(shards_count), missing_count_(shards_count) {
  ASSERT(shards_count > 0);
}

bool CutCollector::add(const ShardCut& cut) noexcept {
  ASSERT(cut.epoch > 0);
  ASSERT(epoch_ == 0 || cut.epoch == epoch_);
  ASSERT(cut.shard < cuts_.size());
  ASSERT(!has_[cut.shard]);
  epoch_ = cut.epoch;
  cuts_[cut.shard] = cut;
  has_[cut.shard] = true;
  --missing_count_;
  return is_complete();
}

// What one shard wrote before its last lap may be all that another has: they are deleted together,
// from the earliest lap on.
Batch CutCollector::batch() const noexcept {
  ASSERT(is_complete());
  const auto earliest = [this](uint64_t ShardCut::*needed_from) {
    return *std::ranges::min_element(cuts_, {}, needed_from).*needed_from;
  };
  return {.epoch = epoch_,
          .cuts = cuts_,
          .delete_before_epoch = earliest(&ShardCut::needed_from_epoch),
          .delete_windows_before_epoch = earliest(&ShardCut::windows_needed_from_epoch)};
}

void CutCollector::clear() noexcept {
  has_.assign(has_.size(), false);
  missing_count_ = static_cast<uint32_t>(cuts_.size());
  epoch_ = 0;
}

}  // namespace sluice::store
