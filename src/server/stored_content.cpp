#include "server/stored_content.hpp"

#include <charconv>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "state/part_reader.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::server {
namespace {

constexpr std::string_view cure =
    "; restore a backup, or start with another file; `sluicegate state recover` saves what is "
    "sound";

std::runtime_error damaged(const std::string& path, std::string_view cause) {
  std::string text = path;
  return std::runtime_error(text.append(": damaged: ").append(cause).append(cure));
}

std::runtime_error unusable(const std::string& path, std::string_view cause) {
  std::string text = path;
  return std::runtime_error(text.append(": it is sound, but cannot be used here: ")
                                .append(cause)
                                .append("; remove the cause, or start the program, on the "
                                        "machine that wrote it; it is left as it is"));
}

state::PartReader open_part(const std::string& path, const store::StoredPart& part) {
  auto reader = state::PartReader::open(part.bytes);
  if (reader) return *reader;
  throw damaged(path, "part " + std::to_string(part.number) + ": " +
                          std::string(state::damage_text(reader.error())));
}

class FileRecords final : public quota::StoredRecords {
 public:
  FileRecords(const std::string& path, size_t shards, store::StateReader& reader)
      : path_(path), shards_(shards), reader_(reader) {}

  bool read(quota::RecordTaker& taker, std::optional<uint32_t> of_shard) override {
    reader_.begin_again();
    reader_.only_kind(state::PartKind::quotas);
    if (of_shard) reader_.only_shard(*of_shard);
    while (const auto part = value_or_throw(reader_.next_part())) {
      state::PartReader reader = open_part(path_, *part);
      // Older ones are superseded by what the first cut with another number of shards wrote.
      if (reader.header().shards != shards_) return true;
      if (!take_all(reader, taker)) return false;
    }
    return true;
  }

 private:
  bool take_all(state::PartReader& reader, quota::RecordTaker& taker) const {
    const state::PartHeader& header = reader.header();
    const quota::RecordOrigin origin{
        .epoch = header.epoch, .shard = header.shard, .latest = header.latest()};
    while (const auto record = reader.next()) {
      if (!taker.take(*record, origin)) return false;
    }
    if (reader.damage()) throw damaged(path_, state::damage_text(*reader.damage()));
    return true;
  }

  const std::string& path_;
  const size_t shards_;
  store::StateReader& reader_;
};

// The newest record of a key counts: also one whose time is over, before an older one that had a
// longer window.
class WindowRestorer {
 public:
  WindowRestorer(shard::KeyDecider& keys, const OwnKeys& own, base::Now now)
      : keys_(keys), own_(own), now_(now) {}

  void take(const state::WindowRecord& window) {
    using shard::Restoring;
    if (!own_.is_own(window.key) || over_.contains(window.key)) return;
    if (own_.is_of_other_node && own_.is_of_other_node(window.key)) {
      over_.emplace(window.key);
      ++of_other_nodes_;
      return;
    }
    const Restoring done = keys_.restore(window, now_);
    if (done == Restoring::is_over) over_.emplace(window.key);
    if (done == Restoring::has_no_room) ++left_out_;
  }
  uint64_t left_out() const noexcept { return left_out_; }
  uint64_t of_other_nodes() const noexcept { return of_other_nodes_; }

 private:
  struct HashOfText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  shard::KeyDecider& keys_;
  const OwnKeys& own_;
  const base::Now now_;
  std::unordered_set<std::string, HashOfText, std::equal_to<>> over_;
  uint64_t left_out_ = 0;
  uint64_t of_other_nodes_ = 0;
};

}  // namespace

StoredContent::StoredContent(std::string path, store::StateReader& reader)
    : path_(std::move(path)) {
  read_meta(reader);
  read_headers(reader);
  if (!shards_.empty() && !seeds_) throw damaged(path_, "it lacks the seeds of its hashes");
}

void StoredContent::read_meta(store::StateReader& reader) {
  StateSeeds seeds;
  int found = 0;
  for (const store::StoredMeta& each : value_or_throw(reader.meta())) {
    uint64_t* const into = each.key == name_seed_key      ? &seeds.name_seed
                           : each.key == routing_seed_key ? &seeds.routing_seed
                                                          : nullptr;
    if (into == nullptr) continue;
    const char* const end = each.value.data() + each.value.size();
    const auto [at, error] = std::from_chars(each.value.data(), end, *into);
    if (error != std::errc() || at != end) throw damaged(path_, each.key + " is no number");
    ++found;
  }
  if (found == 2) seeds_ = seeds;
}

// Every commit has a part of each shard: those of the newest epoch are all that is needed.
void StoredContent::read_headers(store::StateReader& reader) {
  reader.only_kind(state::PartKind::quotas);
  uint64_t epoch = 0;
  size_t found = 0;
  std::vector<bool> has;
  while (const auto part = value_or_throw(reader.next_part())) {
    const state::PartHeader header = open_part(path_, *part).header();
    if (epoch == 0) {
      epoch = header.epoch;
      shards_.resize(header.shards);
      has.resize(header.shards);
    }
    if (header.epoch != epoch) break;
    if (header.shards != shards_.size()) throw damaged(path_, "parts of one epoch differ");
    if (header.file_tag != 0 && seeds_ && header.file_tag != tag_of(*seeds_)) {
      throw damaged(path_, "the FILE-wal beside it is another file's");
    }
    if (has[header.shard]) continue;
    has[header.shard] = true;
    ++found;
    shards_[header.shard] = {.last = header.latest(), .reset_all_order = header.reset_all_order};
    if (!last_time_ || last_time_->state_ns < header.time.state_ns) last_time_ = header.time;
  }
  if (found != shards_.size()) throw damaged(path_, "the newest epoch lacks the parts of a shard");
}

quota::Restored StoredContent::restore(store::StateReader& reader, quota::QuotaDecider& quotas,
                                       base::Now now) const {
  const std::vector<store::StoredClass> classes = value_or_throw(reader.quota_classes());
  const std::vector<store::StoredQuota> put = value_or_throw(reader.run_time_quotas());
  std::vector<quota::StoredClass> class_views;
  for (const store::StoredClass& each : classes) {
    class_views.push_back({.id = each.id, .quota = each.quota});
  }
  std::vector<quota::StoredQuota> put_views;
  for (const store::StoredQuota& each : put) {
    put_views.push_back({.name = each.name, .quota = each.quota});
  }
  FileRecords records(path_, shards_.size(), reader);
  quota::Restored restored = quotas.restore(
      {.records = records, .shards = shards_, .classes = class_views, .run_time_quotas = put_views},
      now);
  if (restored.is_unusable) throw unusable(path_, restored.damage);
  if (!restored.damage.empty()) throw damaged(path_, restored.damage);
  return restored;
}

// The newest parts come first.
RestoredWindows StoredContent::restore(store::StateReader& reader, shard::KeyDecider& keys,
                                       const OwnKeys& own, base::Now now) const {
  reader.begin_again();
  reader.only_kind(state::PartKind::windows);
  if (own.shards == shards_.size()) reader.only_shard(own.shard);
  WindowRestorer restorer(keys, own, now);
  while (const auto part = value_or_throw(reader.next_part())) {
    state::PartReader records = open_part(path_, *part);
    while (const auto record = records.next()) {
      if (const auto* const window = std::get_if<state::WindowRecord>(&*record)) {
        restorer.take(*window);
      }
    }
    if (records.damage()) throw damaged(path_, state::damage_text(*records.damage()));
  }
  return {.count = keys.keys_count(),
          .left_out = restorer.left_out(),
          .of_other_nodes = restorer.of_other_nodes()};
}

}  // namespace sluice::server
