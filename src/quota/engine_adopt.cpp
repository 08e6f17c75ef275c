// Another book: its quotas hold at once, since each subject comes to its own when it is next looked
// at. What has to be done for all of them is done in slices, so that a large file stops nobody:
// the classes of earlier books are let go of; subjects that were named, and are not any more, may
// be forgotten when they are idle; then every name has its subject, before anybody asks, so that it
// is listed. A further book begins anew.
#include "proto/key_hash.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {
namespace {

// In the units of Options::adopt_work. What another core's name or a subject takes is the unit.
constexpr uint32_t look_work = 1;
constexpr uint32_t compile_work = 16;
constexpr uint32_t name_work = 32;
constexpr uint32_t let_go_work = 512;

}  // namespace

void Engine::adopt(policy::QuotaBook& book, base::Now now) noexcept {
  clock_.begin(now);
  book_ = &book;
  ++version_;
  refresh_waiters_at_ = 0;
  book_classes_.begin(book.places_end());
  adoption_ = {.under_way = true,
               .subjects_end = subjects_.index_end(),
               .scans_left = subjects_.capacity() / eviction_scan + 1};
  go_on_adopting();
}

void Engine::go_on_adopting() noexcept {
  for (uint32_t done = 0; adoption_.under_way && done < options_.adopt_work;) done += adopt_step();
}

// Returns how much work it was.
uint32_t Engine::adopt_step() noexcept {
  if (book_classes_.has_earlier()) {
    book_classes_.let_go_some();
    return let_go_work;
  }
  if (adoption_.subject < adoption_.subjects_end) {
    look_whether_named(adoption_.subject++);
    return look_work;
  }
  if (adoption_.place < book_->places_end()) return adopt_place(adoption_.place++);
  adoption_.under_way = false;
  return 0;
}

void Engine::look_whether_named(SubjectIndex index) noexcept {
  if (!subjects_.holds(index)) return;
  Subject& subject = subjects_[index];
  if (!subject.configured || subject.source == api::QuotaSource::run_time) return;
  subject.configured = book_->names(name_of(subject));
}

// Afterwards its class is there, and nobody who asks has to wait until it is made.
uint32_t Engine::adopt_place(uint32_t place) noexcept {
  const policy::QuotaRules& rules = book_->rules();
  if (place == rules.rules.size()) {
    if (rules.unknown == policy::UnknownSubjects::standard) book_classes_.of(place, rules.standard);
    return compile_work;
  }
  const policy::QuotaRule& rule = rules.rules[place];
  if (!rule.is_regex) return adopt_name(rule.subject);
  book_classes_.of(place, rule.quota);
  return compile_work;
}

// Of a name that finds no room the subject is made when it is asked for, as others are.
uint32_t Engine::adopt_name(std::string_view name) noexcept {
  if (name.size() > options_.name_bytes_max) return look_work;
  const uint64_t routed = proto::routing_hash(name, options_.routing_seed);
  if (proto::owner_shard(routed, options_.shards) != options_.shard) return look_work;
  const policy::SubjectQuota own = book_->quota_of(name);
  const QuotaClass* const quota = class_of(own);
  const NameHash hashed = hash(name);
  SubjectIndex index = find(hashed);
  const uint32_t scans = room_scans_;
  const bool may_have_room = subjects_.used() < subjects_.capacity() || adoption_.scans_left > 0;
  if (index == no_subject && may_have_room) {
    index = make(hashed, name, quota, own.source, nobody_);
    const bool found_none = index == no_subject && room_scans_ != scans;
    if (found_none && adoption_.scans_left > 0) --adoption_.scans_left;
  }
  if (index != no_subject) current(index).configured = true;
  return room_scans_ == scans ? name_work : options_.adopt_work;  // a scan is a slice of its own
}

}  // namespace sluice::quota
