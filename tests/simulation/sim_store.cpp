#include "sim_store.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "pick.hpp"
#include "state/part_kind.hpp"
#include "state/part_reader.hpp"

namespace sluice::simulation {
namespace {

using store::FailureKind;

state::PartHeader header_of(std::span<const std::byte> part) {
  const auto header = state::read_header(part);
  ASSERT(header.has_value());
  return *header;
}

}  // namespace

// The parts of the newest number of shards, the newest ones first.
class SimRecords final : public quota::StoredRecords {
 public:
  explicit SimRecords(const SimStore& store) : store_(store) {}

  bool read(quota::RecordTaker& taker, std::optional<uint32_t> of_shard) override {
    const uint32_t shards = store_.shards_count();
    for (auto part = store_.parts_.rbegin(); part != store_.parts_.rend(); ++part) {
      auto reader = state::PartReader::open(*part);
      ASSERT(reader.has_value());
      const state::PartHeader& header = reader->header();
      if (header.shards != shards) return true;
      if (of_shard && header.shard != *of_shard) continue;
      const quota::RecordOrigin origin{
          .epoch = header.epoch, .shard = header.shard, .latest = header.latest()};
      while (const auto record = reader->next()) {
        if (!taker.take(*record, origin)) return false;
      }
      ASSERT(!reader->damage());
    }
    return true;
  }

 private:
  const SimStore& store_;
};

void SimStore::draw_failures() {
  rates_ = {};
  if (random_.chance(0.25)) return;
  const auto rate = [&] { return pick<double, 4>(random_, {0, 0, 0.05, 0.4}); };
  rates_ = {.full = rate(), .io = rate(), .fsync = rate(), .tidy = rate(), .reopen = rate()};
}

store::Result<void> SimStore::fail(FailureKind kind) {
  ++failures_;
  return store::fail(kind, "the simulated disk");
}

store::Result<void> SimStore::commit(const store::Batch& batch) {
  ASSERT(!must_reopen_);
  ASSERT(batch.epoch >= last_epoch_);
  if (batch.epoch == last_epoch_) return {};  // reopen() has found it
  if (random_.chance(rates_.full)) return fail(FailureKind::full);
  if (random_.chance(rates_.io)) return fail(FailureKind::io);
  if (random_.chance(rates_.fsync)) {
    must_reopen_ = true;
    if (random_.chance(0.5)) write(batch);
    return fail(FailureKind::fsync);
  }
  write(batch);
  return {};
}

store::Result<void> SimStore::tidy() {
  ASSERT(!must_reopen_);
  if (!random_.chance(rates_.tidy)) return {};
  must_reopen_ = random_.chance(0.3);
  return fail(must_reopen_ ? FailureKind::fsync : FailureKind::io);
}

store::Result<void> SimStore::reopen() {
  if (random_.chance(rates_.reopen)) return fail(FailureKind::io);
  must_reopen_ = false;
  return {};
}

void SimStore::crash_within(const store::Batch& batch) {
  if (batch.epoch > last_epoch_ && !must_reopen_ && random_.chance(0.5)) write(batch);
}

void SimStore::open_again() {
  must_reopen_ = false;
}

void SimStore::write(const store::Batch& batch) {
  for (const store::ShardCut& cut : batch.cuts) write(cut);
  last_epoch_ = batch.epoch;
  ++commits_;
  const uint64_t needed_from = batch.delete_before_epoch;
  std::erase_if(parts_, [&](const Bytes& part) { return header_of(part).epoch < needed_from; });
  std::erase_if(windows_, [&](const Bytes& part) {
    return header_of(part).epoch < batch.delete_windows_before_epoch;
  });
  std::erase_if(classes_, [&](const auto& each) { return each.second.epoch < needed_from; });
  log_bytes_ = 0;
  for (const Bytes& part : parts_) log_bytes_ += part.size();
}

void SimStore::write(const store::ShardCut& cut) {
  for (const store::QuotaClass& each : cut.quota_classes) {
    classes_[each.id] = {.quota = std::string(each.quota), .epoch = cut.epoch};
  }
  for (const store::QuotaChange& each : cut.quota_changes) {
    run_time_quotas_.erase(std::string(each.name));
    if (each.quota) run_time_quotas_.emplace(each.name, *each.quota);
  }
  for (const store::Part& part : cut.parts) {
    const bool is_window = part.kind == static_cast<uint8_t>(state::PartKind::windows);
    std::vector<Bytes>& parts = is_window ? windows_ : parts_;
    parts.emplace_back(part.bytes.begin(), part.bytes.end());
    ASSERT(header_of(parts.back()).epoch == cut.epoch);
  }
}

uint32_t SimStore::shards_count() const {
  return parts_.empty() ? 0 : header_of(parts_.back()).shards;
}

std::optional<state::StoredTime> SimStore::last_time() const {
  std::optional<state::StoredTime> last;
  for (const Bytes& part : parts_) {
    const state::PartHeader header = header_of(part);
    if (header.epoch != last_epoch_) continue;
    if (!last || last->state_ns < header.time.state_ns) last = header.time;
  }
  return last;
}

quota::Restored SimStore::restore(quota::QuotaDecider& quotas, base::Now now) const {
  std::vector<quota::StoredShard> shards(shards_count());
  for (const Bytes& part : parts_) {  // the last one of each counts
    const state::PartHeader header = header_of(part);
    if (header.epoch != last_epoch_) continue;
    shards[header.shard] = {.last = header.latest(), .reset_all_order = header.reset_all_order};
  }
  std::vector<quota::StoredClass> classes;
  for (const auto& [id, each] : classes_) classes.push_back({.id = id, .quota = each.quota});
  std::vector<quota::StoredQuota> put;
  for (const auto& [name, quota] : run_time_quotas_) put.push_back({.name = name, .quota = quota});
  SimRecords records(*this);
  return quotas.restore(
      {.records = records, .shards = shards, .classes = classes, .run_time_quotas = put}, now);
}

server::RestoredWindows SimStore::restore(shard::KeyDecider& keys, const server::OwnKeys& own,
                                          base::Now now) const {
  server::RestoredWindows restored;
  for (auto part = windows_.rbegin(); part != windows_.rend(); ++part) {
    auto reader = state::PartReader::open(*part);
    ASSERT(reader.has_value());
    while (const auto record = reader->next()) {
      const auto& window = std::get<state::WindowRecord>(*record);
      if (!own.is_own(window.key)) continue;
      if (keys.restore(window, now) == shard::Restoring::has_no_room) ++restored.left_out;
    }
    ASSERT(!reader->damage());
  }
  restored.count = keys.keys_count();
  return restored;
}

}  // namespace sluice::simulation
