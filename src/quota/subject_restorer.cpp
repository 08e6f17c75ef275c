#include "quota/subject_restorer.hpp"

#include <utility>

#include "policy/quota_text.hpp"
#include "proto/key_hash.hpp"
#include "proto/node_hash.hpp"
#include "proto/reservation_id.hpp"
#include "quota/quota_class.hpp"
#include "state/meter_words.hpp"

namespace sluice::quota {

SubjectRestorer::SubjectRestorer(const Options& options, CurrentBook& book, SubjectTable& subjects,
                                 const StoredState& stored)
    : options_(options), book_(book), subjects_(subjects), stored_(stored) {
  for (const StoredClass& each : stored_.classes) texts_.emplace(each.id, each.quota);
}

SubjectRestorer::~SubjectRestorer() {
  for (const auto& [_, quota] : classes_) book_.classes().drop_reference(quota);
}

// Empty: it is damaged.
std::optional<api::Quota> SubjectRestorer::parse(std::string_view quota, std::string_view of) {
  policy::ParsedQuota parsed = policy::parse_quota(quota);
  if (parsed.complaints.empty()) return std::move(parsed.quota);
  if (damage_.empty()) is_unusable_ = parsed.is_json;
  std::string damage = "the quota ";
  damage.append(of).append(": ").append(parsed.complaints.front());
  fail(std::move(damage));
  return std::nullopt;
}

// Null: it is damaged.
const CompiledQuota* SubjectRestorer::compile(std::string_view quota, std::string_view of) {
  const std::optional<api::Quota> parsed = parse(quota, of);
  return parsed ? book_.classes().hold(*parsed) : nullptr;
}

// Null: it is damaged, or not there.
const CompiledQuota* SubjectRestorer::quota_of_class(uint64_t id) {
  const auto known = classes_.find(id);
  if (known != classes_.end()) return known->second;
  const auto text = texts_.find(id);
  if (text == texts_.end()) {
    fail("a subject has a quota that is not there");
    return nullptr;
  }
  if (class_id(text->second) != id) {  // which is its checksum
    fail("the quota " + std::to_string(id) + " is not the one that was written");
    return nullptr;
  }
  const CompiledQuota* const quota = compile(text->second, std::to_string(id));
  if (quota != nullptr) classes_.emplace(id, quota);
  return quota;
}

void SubjectRestorer::fail(std::string damage) {
  if (damage_.empty()) damage_ = std::move(damage);
}

bool SubjectRestorer::take(const state::StoredRecord& record, const RecordOrigin& origin) {
  if (!damage_.empty()) return false;
  if (origin.epoch != epoch_) begin_epoch(origin.epoch);
  if (const auto* const subject = std::get_if<state::StoredSubject>(&record)) {
    take_subject(*subject, origin);
  } else if (const auto* const gone = std::get_if<state::GoneSubject>(&record)) {
    const bool is_own = proto::shard_of_route(gone->key.route, options_.shards) == options_.shard;
    if (is_own) gone_in_epoch_.emplace_back(gone->key.name.low, gone->key.name.high);
  }
  return damage_.empty();
}

void SubjectRestorer::begin_epoch(uint64_t epoch) {
  epoch_ = epoch;
  gone_.insert(gone_in_epoch_.begin(), gone_in_epoch_.end());
  gone_in_epoch_.clear();
}

bool SubjectRestorer::is_own(std::string_view name) const noexcept {
  const uint64_t routed = proto::routing_hash(name, options_.routing_seed);
  return proto::owner_shard(routed, options_.shards) == options_.shard;
}

bool SubjectRestorer::is_of_other_node(std::string_view name) const noexcept {
  if (options_.node_slot == proto::reservation_id::no_slot) return false;  // this node is alone
  const uint32_t owner = proto::subject_node(name, options_.nodes_count);
  return proto::reservation_id::slot_of_node(owner) != options_.node_slot;
}

void SubjectRestorer::take_subject(const state::StoredSubject& subject,
                                   const RecordOrigin& origin) {
  if (!is_own(subject.name)) return;
  const NameHash hash = subjects_.hash(subject.name);
  if (subjects_.find(hash) != no_subject || gone_.contains({hash.low, hash.high})) return;
  if (is_of_other_node(subject.name)) {
    ++of_other_nodes_count_;
    gone_.emplace(hash.low, hash.high);
    return;
  }
  if (!subjects_.is_full() && subject.name.size() <= options_.name_bytes_max) {
    return make(hash, subject, origin);
  }
  ++left_out_count_;
  gone_.emplace(hash.low, hash.high);
}

void SubjectRestorer::make(const NameHash& hash, const state::StoredSubject& subject,
                           const RecordOrigin& origin) {
  const CompiledQuota* quota = nullptr;
  if (subject.quota_class != 0) {
    quota = quota_of_class(subject.quota_class);
    if (quota == nullptr) return;
  }
  const CurrentBook::OwnQuota own{.quota = quota};
  const SubjectIndex index = subjects_.make(hash, subject.name, own, no_limited_subjects);
  const std::span<const limiter::MeterShape> shapes =
      quota == nullptr ? std::span<const limiter::MeterShape>() : quota->shapes;
  if (!state::unpack_meters(subject.meters, shapes, origin.latest, subjects_[index].words)) {
    return fail("the usage of a subject does not belong to its quota");
  }
  const StoredShard& shard = stored_.shards[origin.shard];
  subjects_.set_restored(index, subject.reset_order, shard.reset_all_order);
  ++count_;
}

void SubjectRestorer::put_quotas() {
  for (const StoredQuota& each : stored_.run_time_quotas) put(each);
}

void SubjectRestorer::put(const StoredQuota& stored) {
  if (!is_own(stored.name)) return;
  std::optional<api::Quota> parsed = parse(stored.quota, "that was put at run time");
  if (!parsed) return;
  if (is_of_other_node(stored.name)) {
    moved_.push_back({.name = std::string(stored.name), .quota = std::move(*parsed)});
    return;
  }
  const NameHash hash = subjects_.hash(stored.name);
  if (stored.name.size() > options_.name_bytes_max) return note_left_out(hash);
  const CompiledQuota* const quota = book_.classes().hold(*parsed);
  const CurrentBook::OwnQuota own{.quota = quota, .source = api::QuotaSource::run_time};
  SubjectIndex index = subjects_.find(hash);
  if (index != no_subject) {
    subjects_.change_quota(index, own);
  } else if (!subjects_.is_full()) {
    index = subjects_.make(hash, stored.name, own, no_limited_subjects);
    ++count_;
  } else {
    note_left_out(hash);
  }
  book_.classes().drop_reference(quota);
  if (index != no_subject) subjects_[index].configured = true;
}

// The quota of a subject; if it has a record, that was counted.
void SubjectRestorer::note_left_out(const NameHash& hash) noexcept {
  if (!gone_.contains({hash.low, hash.high})) ++left_out_count_;
}

}  // namespace sluice::quota
