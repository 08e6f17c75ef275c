#include "cli/state_recovery.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "cli/native_server.hpp"
#include "cli/part_check.hpp"
#include "cli/state_files.hpp"
#include "server/stored_file.hpp"
#include "state/part_filter.hpp"
#include "state/record.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::cli {
namespace {

constexpr uint8_t quotas_kind = static_cast<uint8_t>(state::PartKind::quotas);

std::string range_text(const char* one, const char* several, int64_t first, int64_t last) {
  if (first == last) return fmt::format("{} {}", one, first);
  if (last == std::numeric_limits<int64_t>::max()) {
    return fmt::format("{} {} and later ones, if there were any", several, first);
  }
  return fmt::format("{} {} to {}", several, first, last);
}

bool has_key(const std::vector<store::StoredMeta>& meta, const char* key) {
  return std::ranges::count(meta, key, &store::StoredMeta::key) == 1;
}

}  // namespace

StateRecovery::StateRecovery(const std::string& from, const std::string& to)
    : salvage_(value_or_throw(store::Salvage::open(from))),
      made_(value_or_throw(store::NewState::make(to))) {}

RecoveryReport StateRecovery::run() {
  read_tables();
  if (has_seeds_) read_parts();
  const uint64_t last_epoch = newest_whole_epoch();
  report_parts(last_epoch);
  value_or_throw(made_.add(meta_));
  write_parts(last_epoch);
  write_quotas(last_epoch);
  value_or_throw(made_.finish());
  RecoveryReport report;
  check_made(report);
  value_or_throw(made_.publish());
  report.losses = std::move(losses_);
  return report;
}

// ---- reading -----------------------------------------------------------------------------------

void StateRecovery::read_tables() {
  const auto note = [this](const char* table, const std::string& damage) {
    if (damage.empty()) return;
    lose(fmt::format("the table {}: {}; what cannot be read of it is lost", table, damage));
  };
  auto meta = salvage_.meta();
  note("meta", meta.damage);
  has_seeds_ =
      has_key(meta.rows, server::name_seed_key) && has_key(meta.rows, server::routing_seed_key);
  if (has_seeds_) meta_ = std::move(meta.rows);

  auto quotas = salvage_.run_time_quotas();
  note("run_time_quota", quotas.damage);
  auto classes = salvage_.quota_classes();
  note("quota_class", classes.damage);
  std::set<uint64_t> known;
  const auto keep_class = [&](store::StoredClass each) {
    if (known.insert(each.id).second) classes_.push_back(std::move(each));
  };
  for (store::StoredQuota& each : quotas.rows) {
    const QuotaFinding found = examine(each);
    if (found.state == QuotaFinding::State::damaged) {
      lose(fmt::format("the quota put for {}: {}", printable(each.name), found.cause));
      continue;
    }
    keep_class({.id = state::quota_class_of(each.quota), .quota = each.quota});
    quotas_.push_back(std::move(each));
  }
  for (store::StoredClass& each : classes.rows) {
    const QuotaFinding found = examine(each);
    if (found.state != QuotaFinding::State::damaged) keep_class(std::move(each));
  }
  class_ids_.assign(known.begin(), known.end());
}

StateRecovery::Entry StateRecovery::examine_part(const store::PartRow& row) {
  Entry entry{.numbers = {row.number, row.number},
              .epoch = row.epoch,
              .shard = row.shard,
              .is_of_quotas = row.kind == quotas_kind};
  const std::optional<store::StoredPart> part = salvage_.part(row.number);
  if (!part) {
    entry.damage = "its pages are damaged";
    return entry;
  }
  entry.damage = find_damage(*part).value_or("");
  if (entry.damage.empty()) entry.shards = state::read_header(part->bytes)->shards;
  return entry;
}

void StateRecovery::read_parts() {
  const store::PartList list = salvage_.list_parts();
  for (const store::PartRow& row : list.rows) entries_.push_back(examine_part(row));
  for (const store::NumberRange& range : list.lost) {
    entries_.push_back({.numbers = range, .damage = "a page that leads there is damaged"});
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) { return entry.numbers.first; });
  find_disorder();
}

// Epochs grow with the numbers.
void StateRecovery::find_disorder() {
  uint64_t later_epoch = std::numeric_limits<uint64_t>::max();
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (!entry->damage.empty()) continue;
    if (*entry->epoch > later_epoch) {
      entry->damage = "its epoch is later than that of the part after it";
    } else {
      later_epoch = *entry->epoch;
    }
  }
}

// ---- the newest whole epoch --------------------------------------------------------------------

// Its entries are those from `first` on, before `last`; those beside them may be of it, too.
bool StateRecovery::is_whole(size_t first, size_t last) const {
  const auto is_unknown = [this](size_t at) { return !entries_[at].epoch; };
  if (first > 0 && is_unknown(first - 1)) return false;
  if (last < entries_.size() && is_unknown(last)) return false;
  std::set<uint32_t> shards;
  uint32_t shards_count = 0;
  for (size_t at = first; at < last; ++at) {
    const Entry& entry = entries_[at];
    if (!entry.is_of_quotas) continue;
    if (!entry.damage.empty()) return false;
    if (shards.empty()) shards_count = entry.shards;
    if (entry.shards != shards_count) return false;
    shards.insert(entry.shard);
  }
  return !shards.empty() && shards.size() == shards_count;
}

// 0: there is none.
uint64_t StateRecovery::newest_whole_epoch() const {
  size_t end = entries_.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && entries_[begin - 1].epoch == entries_[begin].epoch) --begin;
    if (entries_[begin].epoch && is_whole(begin, end)) return *entries_[begin].epoch;
    end = begin;
  }
  return 0;
}

void StateRecovery::report_parts(uint64_t last_epoch) {
  if (!has_seeds_) {
    lose("the seeds of its hashes, so all parts: usage and reservations");
    return;
  }
  uint64_t cut_count = 0;
  uint64_t cut_epoch = 0;
  for (const Entry& entry : entries_) {
    if (!entry.damage.empty()) {
      lose(fmt::format("{}: {}",
                       range_text("part", "parts", entry.numbers.first, entry.numbers.last),
                       entry.damage));
    } else if (*entry.epoch > last_epoch) {
      ++cut_count;
      cut_epoch = *entry.epoch;
    }
  }
  if (cut_count == 0) return;
  const std::string parts =
      cut_count == 1 ? "a sound part" : fmt::format("{} sound parts", cut_count);
  if (last_epoch == 0) return lose(parts + ": no epoch is whole");
  lose(fmt::format("{} of {}: not whole", parts,
                   range_text("epoch", "epochs", static_cast<int64_t>(last_epoch + 1),
                              static_cast<int64_t>(cut_epoch))));
}

// ---- writing -----------------------------------------------------------------------------------

void StateRecovery::write_parts(uint64_t last_epoch) {
  uint64_t subjects_count = 0;
  for (const Entry& entry : entries_) {
    if (!entry.damage.empty() || *entry.epoch > last_epoch) continue;
    const auto stored = salvage_.part(entry.numbers.first);
    if (!stored) throw std::runtime_error("a part cannot be read a second time: check the disk");
    state::FilteredPart filtered;
    if (entry.is_of_quotas) {
      filtered = state::without_other_classes(stored->bytes, class_ids_);
    } else {
      filtered.bytes.assign(stored->bytes.begin(), stored->bytes.end());
    }
    subjects_count += filtered.left_out;
    const store::Part part{.kind = stored->kind, .bytes = filtered.bytes};
    const store::ShardCut cut{.epoch = stored->epoch, .shard = stored->shard, .parts = {&part, 1}};
    value_or_throw(made_.add({.epoch = stored->epoch, .cuts = {&cut, 1}}));
  }
  if (subjects_count == 0) return;
  lose(fmt::format("the usage of subjects whose quota is lost, in {} records", subjects_count));
}

void StateRecovery::write_quotas(uint64_t last_epoch) {
  std::vector<store::QuotaClass> classes;
  for (const store::StoredClass& each : classes_) {
    classes.push_back({.id = each.id, .quota = each.quota});
  }
  std::vector<store::QuotaChange> changes;
  for (const store::StoredQuota& each : quotas_) {
    changes.push_back({.name = each.name, .quota = each.quota, .put_at = each.put_at});
  }
  const store::ShardCut cut{
      .epoch = last_epoch, .quota_classes = classes, .quota_changes = changes};
  value_or_throw(made_.add({.epoch = last_epoch, .cuts = {&cut, 1}}));
}

// A mistake here must not pass for a sound file.
void StateRecovery::check_made(RecoveryReport& report) {
  const auto verify = [](const store::StoredPart& part) { return find_damage(part); };
  store::CheckReport checked = value_or_throw(store::check(made_.path(), cut_wall_ns, verify));
  if (!checked.complaints.empty()) {
    throw std::runtime_error("what was recovered is not sound: " + checked.complaints.front());
  }
  report.made = std::move(checked.info);
}

}  // namespace sluice::cli
