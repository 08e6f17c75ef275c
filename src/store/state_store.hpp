// What survives a restart, as the writer hands it to a store: the changes of all shards as of one
// instant, written whole or not at all.
// Flow:   a shard's worker fills a ShardCut -> StateWriter collects those of all shards ->
//         StateStore::commit(Batch) -> StateFile, or the simulation's store.
// Shape:  the bytes of parts are opaque here; a later part replaces what an earlier one of its kind
//         (state/part_kind.hpp) says.
// Lives:  every view points to memory of the worker that made the cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/failure.hpp"

namespace sluice::store {

struct Part {
  uint8_t kind = 0;
  std::span<const std::byte> bytes;
};

// A shard's cuts name each class that its records have, once since its present lap began: classes
// are deleted together with the parts that are older than the lap.
struct QuotaClass {
  uint64_t id = 0;
  std::string_view quota;
};

// A quota put at run time, or, without `quota`, removed.
struct QuotaChange {
  std::string_view name;
  std::optional<std::string_view> quota;
  int64_t put_at = 0;
};

struct MetaValue {
  std::string_view key;
  std::string_view value;
};

struct StoredMeta {
  std::string key;
  std::string value;
  bool operator==(const StoredMeta&) const = default;
};

struct ShardCut {
  uint64_t epoch = 0;
  uint32_t shard = 0;
  std::span<const Part> parts;
  uint64_t records_count = 0;  // in all parts; for metrics
  std::span<const QuotaClass> quota_classes;
  std::span<const QuotaChange> quota_changes;  // in this order
  // The epoch in which the last finished lap over all that lives began: what this shard wrote
  // before is superseded. 0: no lap was finished yet.
  uint64_t needed_from_epoch = 0;
  uint64_t windows_needed_from_epoch = 0;  // likewise of the parts of that kind
};

struct Batch {
  uint64_t epoch = 0;
  std::span<const ShardCut> cuts;
  // Of earlier epochs; 0: none.
  uint64_t delete_before_epoch = 0;  // classes, and all parts but those of windows
  uint64_t delete_windows_before_epoch = 0;
};

struct StoreSize {
  uint64_t file_bytes = 0;  // of all files of the store
  uint64_t log_bytes = 0;   // of all parts but those of windows: a lap is due when they are many
};

class StateStore {
 public:
  virtual ~StateStore() = default;

  // One transaction. Epochs grow. After success the batch survives a power failure; after a failure
  // it has changed nothing, unless it was an fsync that failed: then it may be there.
  virtual Result<void> commit(const Batch& batch) = 0;

  // What commits leave for later, so that nobody waits for it.
  virtual Result<void> tidy() = 0;

  // Required after a failure of fsync, before the next commit: believes no cache, reads what the
  // disk has. A commit of an epoch that is there does nothing.
  virtual Result<void> reopen() = 0;

  // The clean end; nothing may follow.
  virtual Result<void> close() = 0;

  virtual StoreSize size() const noexcept = 0;
};

}  // namespace sluice::store
