// What cuts of quota stores have written, in memory: parts as in the state file, classes of quotas,
// and the quotas that were put at run time.
// Flow:   a QuotaStore for each shard -> StateCut::begin(), hand_over() -> MemoryState::commit() ->
//         MemoryState::restore() in other stores.
// Shape:  as the server does it: a commit has the parts of all shards of an epoch; what a lap has
//         superseded is deleted with it.
// Lives:  one thread only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "quota/quota_store.hpp"
#include "state/part_builder.hpp"
#include "state/part_reader.hpp"

namespace sluice::quota {

using RunTimeQuotas = std::map<std::string, std::string>;  // as JSON, by name

// The present cut of one shard.
class StateCut {
 public:
  StateCut(QuotaStore& store, const Options& options)
      : store_(store),
        shard_(options.shard),
        shards_(options.shards),
        builder_({.subjects_max = options.subjects_max,
                  .name_bytes_max = options.name_bytes_max,
                  .reservations_max = options.reservations_max}) {}

  void begin(uint64_t epoch, bool begins_lap) {
    epoch_ = epoch;
    is_under_way_ = true;
    builder_.clear();
    store_.begin_cut(builder_, {.epoch = epoch, .begins_lap = begins_lap});
  }
  // False: the cut is complete.
  bool hand_over(uint32_t records, base::Now now) {
    if (!is_under_way_) return false;
    is_under_way_ = store_.hand_over(records);
    if (is_under_way_) return true;
    facts_ = store_.cut_facts();
    builder_.finish({.epoch = epoch_,
                     .shard = static_cast<uint16_t>(shard_),
                     .shards = static_cast<uint16_t>(shards_),
                     .time = {.state_ns = now.monotonic_ns},
                     .calendar_wall_ns = facts_.calendar_wall_ns,
                     .order = facts_.order,
                     .reset_all_order = facts_.reset_all_order});
    return false;
  }

  uint64_t epoch() const { return epoch_; }
  bool is_under_way() const { return is_under_way_; }
  const state::PartBuilder& builder() const { return builder_; }
  const CutFacts& facts() const { return facts_; }
  uint32_t shard() const { return shard_; }
  uint32_t shards() const { return shards_; }

 private:
  QuotaStore& store_;
  const uint32_t shard_;
  const uint32_t shards_;
  state::PartBuilder builder_;
  uint64_t epoch_ = 0;
  bool is_under_way_ = false;
  CutFacts facts_;
};

class MemoryState : public StoredRecords {
 public:
  // All cuts of an epoch. The quotas put at run time are those of its instant.
  void commit(const std::vector<std::unique_ptr<StateCut>>& cuts, RunTimeQuotas run_time_quotas) {
    run_time_quotas_ = std::move(run_time_quotas);
    for (const auto& cut : cuts) {
      ASSERT_FALSE(cut->is_under_way());
      ASSERT_EQ(cut->epoch(), cuts.front()->epoch());
      for (const state::PartBuilder::Part part : cut->builder().parts()) {
        parts_.push_back({part.begin(), part.end()});
        note_ids(parts_.back());
      }
      for (const state::QuotaClass& each : cut->builder().quota_classes()) {
        classes_[each.id] = {.quota = each.quota, .epoch = cut->epoch()};
      }
    }
    uint64_t complete_since = UINT64_MAX;
    for (const auto& cut : cuts) {
      complete_since = std::min(complete_since, cut->facts().complete_since_epoch);
    }
    std::erase_if(parts_,
                  [&](const Bytes& part) { return header_of(part).epoch < complete_since; });
    std::erase_if(classes_, [&](const auto& each) { return each.second.epoch < complete_since; });
  }

  // In a store that is new.
  Restored restore(QuotaStore& store, base::Now now) {
    std::vector<StoredShard> shards(header_of(parts_.back()).shards);
    for (const Bytes& part : parts_) {  // the last one of each counts
      const state::PartHeader header = header_of(part);
      if (header.shards != shards.size()) continue;
      shards[header.shard] = {.last = header.latest(), .reset_all_order = header.reset_all_order};
    }
    std::vector<StoredClass> classes;
    for (const auto& [id, each] : classes_) classes.push_back({.id = id, .quota = each.quota});
    std::vector<StoredQuota> quotas;
    for (const auto& [name, quota] : run_time_quotas_) {
      quotas.push_back({.name = name, .quota = quota});
    }
    return store.restore(
        {.records = *this, .shards = shards, .classes = classes, .run_time_quotas = quotas}, now);
  }

  bool read(RecordTaker& taker, std::optional<uint32_t> of_shard) override {
    const uint16_t shards = header_of(parts_.back()).shards;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      auto reader = state::PartReader::open(*part);
      EXPECT_TRUE(reader.has_value());
      const state::PartHeader& header = reader->header();
      if (header.shards != shards) break;
      if (of_shard && header.shard != *of_shard) continue;
      const RecordOrigin origin{
          .epoch = header.epoch, .shard = header.shard, .latest = header.latest()};
      while (const auto record = reader->next()) {
        if (!taker.take(*record, origin)) return false;
      }
      EXPECT_FALSE(reader->damage().has_value());
    }
    return true;
  }

  bool is_empty() const { return parts_.empty(); }
  const RunTimeQuotas& run_time_quotas() const { return run_time_quotas_; }
  // Whether some commit had a record of this reservation at its home.
  bool has_had(uint64_t id) const { return ids_.contains(id); }
  size_t parts_count() const { return parts_.size(); }

 private:
  using Bytes = std::vector<std::byte>;
  struct Class {
    std::string quota;
    uint64_t epoch = 0;
  };

  static state::PartHeader header_of(const Bytes& part) {
    const auto header = state::read_header(part);
    EXPECT_TRUE(header.has_value());
    return *header;
  }

  void note_ids(const Bytes& part) {
    auto reader = state::PartReader::open(part);
    while (const auto record = reader->next()) {
      if (const auto* const reservation = std::get_if<state::ReservationRecord>(&*record)) {
        if (!reservation->is_part) ids_.insert(reservation->id);
      } else if (const auto* const end = std::get_if<state::EndedReservation>(&*record)) {
        ids_.insert(end->id);
      }
    }
    ASSERT_FALSE(reader->damage().has_value());
  }

  std::vector<Bytes> parts_;  // in the order of their commits
  std::map<uint64_t, Class> classes_;
  RunTimeQuotas run_time_quotas_;
  std::set<uint64_t> ids_;
};

}  // namespace sluice::quota
