// A writer of the state that keeps what shards hand over, and releases epochs when the test says
// so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "state/part_reader.hpp"
#include "store/cut_sink.hpp"

namespace sluice::server {

class FakeWriter final : public store::CutSink {
 public:
  struct Class {
    uint64_t id = 0;
    std::string quota;
    bool operator==(const Class&) const = default;
  };
  struct Change {
    std::string name;
    std::optional<std::string> quota;
    int64_t put_at = 0;
    bool operator==(const Change&) const = default;
  };
  struct Cut {
    uint64_t epoch = 0;
    uint32_t shard = 0;
    std::vector<uint8_t> kinds;                 // of parts
    std::vector<std::vector<std::byte>> parts;  // as they were when they were handed over
    std::vector<std::span<const std::byte>> lent;
    uint64_t records_count = 0;
    uint64_t needed_from_epoch = 0;
    std::vector<Class> classes;
    std::vector<Change> changes;
  };

  bool hand_over(const store::ShardCut& cut) noexcept override {
    if (!accepts) return false;
    Cut own{.epoch = cut.epoch,
            .shard = cut.shard,
            .records_count = cut.records_count,
            .needed_from_epoch = cut.needed_from_epoch};
    for (const store::Part& part : cut.parts) {
      own.kinds.push_back(part.kind);
      own.parts.emplace_back(part.bytes.begin(), part.bytes.end());
      own.lent.push_back(part.bytes);
    }
    for (const auto& each : cut.quota_classes) {
      own.classes.push_back({each.id, std::string(each.quota)});
    }
    for (const auto& each : cut.quota_changes) {
      own.changes.push_back({std::string(each.name), std::nullopt, each.put_at});
      if (each.quota) own.changes.back().quota.emplace(*each.quota);
    }
    cuts.push_back(std::move(own));
    return true;
  }
  const store::WriterStatistics& statistics() const noexcept override { return state; }

  void commit(uint64_t epoch) {
    state.committed_epoch.store(epoch);
    state.released_epoch.store(epoch);
  }
  void set_status(store::WriterStatus status) { state.status.store(status); }
  size_t cuts_of(uint64_t epoch) const {
    return static_cast<size_t>(
        std::ranges::count_if(cuts, [epoch](const Cut& cut) { return cut.epoch == epoch; }));
  }

  store::WriterStatistics state;
  std::vector<Cut> cuts;
  bool accepts = true;
};

}  // namespace sluice::server
