#include "quota/book_adoption.hpp"

#include "proto/key_hash.hpp"

namespace sluice::quota {
namespace {

// The work of one step. The unit is a name of another shard, or one subject that is checked.
constexpr uint32_t scan_work = 1;
constexpr uint32_t compile_work = 16;
constexpr uint32_t name_work = 32;
constexpr uint32_t free_work = 512;

}  // namespace

void BookAdoption::begin() noexcept {
  under_way_ = true;
  subject_ = 0;
  subjects_end_ = subjects_.pool().index_end();
  place_ = 0;
  scans_left_ = subjects_.pool().capacity() / SubjectTable::eviction_scan + 1;
}

void BookAdoption::run_slice() noexcept {
  for (uint32_t done = 0; under_way_ && done < options_.adopt_work;) done += step();
}

// Returns its work.
uint32_t BookAdoption::step() noexcept {
  if (book_.has_earlier_classes()) {
    book_.free_earlier_slice();
    return free_work;
  }
  if (subject_ < subjects_end_) {
    forget_unnamed(subject_++);
    return scan_work;
  }
  if (place_ < book_.places_end()) return adopt_place(place_++);
  under_way_ = false;
  return 0;
}

void BookAdoption::forget_unnamed(SubjectIndex index) noexcept {
  if (!subjects_.pool().holds(index)) return;
  Subject& subject = subjects_[index];
  if (!subject.configured || subject.source == api::QuotaSource::run_time) return;
  subject.configured = book_.names(subjects_.name_of(index));
}

// Makes the quota's class, so that no call has to wait for it.
uint32_t BookAdoption::adopt_place(uint32_t place) noexcept {
  const policy::QuotaRules& rules = book_.rules();
  if (place == rules.rules.size()) {
    if (rules.unknown == policy::UnknownSubjects::use_quota)
      book_.compiled_at(place, rules.unknown_quota);
    return compile_work;
  }
  const policy::QuotaRule& rule = rules.rules[place];
  if (!rule.is_regex) return adopt_name(rule.subject);
  book_.compiled_at(place, rule.quota);
  return compile_work;
}

uint32_t BookAdoption::adopt_name(std::string_view name) noexcept {
  if (!is_own(name)) return scan_work;
  const CurrentBook::OwnQuota own = book_.quota_of(name);
  const NameHash hashed = subjects_.hash(name);
  SubjectIndex index = subjects_.find(hashed);
  bool scans = false;
  if (index == no_subject) {
    scans = subjects_.is_full() && scans_left_ > 0;
    if (scans || !subjects_.is_full())
      index = subjects_.make(hashed, name, own, no_limited_subjects);
    if (scans && index == no_subject) --scans_left_;
  }
  if (index != no_subject) subjects_.current(index).configured = true;
  return scans ? options_.adopt_work : name_work;  // a scan is a slice of its own
}

bool BookAdoption::is_own(std::string_view name) const noexcept {
  if (name.size() > options_.name_bytes_max) return false;
  const uint64_t routed = proto::routing_hash(name, options_.routing_seed);
  return proto::owner_shard(routed, options_.shards) == options_.shard;
}

}  // namespace sluice::quota
