#include "quota/subject_table.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::QuotaSource;
using limiter::Meter;
using limiter::MeterShape;

namespace {

bool contains(const LimitedSubjects& limited, SubjectIndex index) noexcept {
  return std::any_of(limited.begin(), limited.end(),
                     [index](const LimitedSubject& each) { return each.index == index; });
}

}  // namespace

SubjectTable::SubjectTable(const Options& options, const CallClock& clock, CurrentBook& book,
                           ChangeLog& log, Statistics& statistics)
    : clock_(clock),
      book_(book),
      log_(log),
      statistics_(statistics),
      hash_seed_(options.name_seed),
      routing_seed_(options.routing_seed),
      pool_(options.subjects_max, "subjects (--max-subjects)"),
      index_(options.subjects_max, "subjects (--max-subjects)"),
      names_(options.subjects_max, options.name_bytes_max,
             "names of subjects (--max-subjects, --max-key-bytes)"),
      meters_(options.subjects_max),
      holds_(options.subjects_max) {
  pool_.advise_huge();
}

NameHash SubjectTable::hash(std::string_view name) const noexcept {
  const state::Hash hash = state::hash_of_name(name, hash_seed_);
  return {.low = hash.low, .high = hash.high};
}

SubjectIndex SubjectTable::make(const NameHash& hash, std::string_view name,
                                CurrentBook::OwnQuota own, const LimitedSubjects& kept) noexcept {
  if (is_full() && !make_room(kept)) return no_subject;
  const SubjectIndex index = pool_.take();
  Subject& subject = pool_[index];
  subject.hash = hash;
  subject.name = reinterpret_cast<char*>(names_.take(name.size()));
  subject.name_bytes = static_cast<uint16_t>(name.size());
  std::memcpy(subject.name, name.data(), name.size());
  subject.route = proto::route_of_hash(proto::routing_hash(name, routing_seed_));
  subject.version = book_.version();
  subject.resets = resets_.count;
  index_.insert(hash.low, index);
  log_.add(subject, index);
  change_quota(index, own);
  return index;
}

LimitedSubjects SubjectTable::limited_subjects(std::span<const SubjectIndex> named) noexcept {
  LimitedSubjects limited;
  for (uint8_t place = 0; place < named.size(); ++place) {
    if (!is_here(named[place])) continue;
    LimitedSubject& each = limited.emplace_back();
    each.place = place;
    read_limited_subject(named[place], each);
    if (each.quota == nullptr) limited.pop_back();
  }
  return limited;
}

void SubjectTable::copy_each_first(const LimitedSubjects& limited) noexcept {
  for (const LimitedSubject& each : limited) log_.copy_first(pool_[each.index], each.index);
}

void SubjectTable::add_absent(const CompiledQuota& quota, LimitedSubject& each) noexcept {
  each.quota = &quota;
  each.words = meters_.scratch(each.place);
  begin_meters(quota, each.words, clock_.moment());
}

void SubjectTable::change_quota(SubjectIndex index, CurrentBook::OwnQuota own) noexcept {
  Subject& subject = pool_[index];
  subject.source = own.source;
  if (own.quota == subject.quota) return;
  log_.touch(subject, index);
  const bool rules_out =
      own.quota == nullptr ? book_.denies_unknown() : rules_out_more(subject.quota, *own.quota);
  if (subject.has_waiters() && rules_out) subject.to_scan = true;
  limiter::Words words;
  if (own.quota != nullptr) {
    CompiledQuotas::hold(own.quota);
    words = meters_.take(*own.quota);
    for (const MeterShape& shape : own.quota->shapes) {
      Meter meter(shape, words);
      meter.begin(clock_.moment());
      if (subject.quota == nullptr) continue;
      for (const MeterShape& before : subject.quota->shapes) {
        if (!continues(before, shape)) continue;
        meter.take_over(before, subject.words, clock_.moment());
      }
    }
  }
  free_meters(subject);
  subject.words = words;
  subject.quota = own.quota;
}

void SubjectTable::free_meters(const Subject& subject) noexcept {
  if (subject.quota == nullptr) return;
  meters_.free(*subject.quota, subject.words);
  book_.classes().drop_reference(subject.quota);
}

void SubjectTable::refresh(SubjectIndex index) noexcept {
  Subject& subject = pool_[index];
  if (subject.has_waiters()) to_serve_.add(index);  // before any newcomer
  if (subject.resets != resets_.count) {
    reset_meters(index, resets_.order);
    subject.resets = resets_.count;
  }
  if (std::exchange(subject.version, book_.version()) == book_.version()) return;
  if (subject.source == QuotaSource::run_time) return;
  change_quota(index, book_.quota_of(name_of(index)));
}

void SubjectTable::reset_meters(SubjectIndex index, uint64_t order) noexcept {
  Subject& subject = pool_[index];
  log_.touch(subject, index);
  subject.reset_order = order;
  if (subject.quota == nullptr) return;
  for (const MeterShape& shape : subject.quota->shapes) {
    Meter meter(shape, subject.words);
    meter.roll(clock_.moment());
    meter.reset(clock_.moment());
  }
}

void SubjectTable::reset(SubjectIndex index) noexcept {
  current(index);
  reset_meters(index, clock_.order());
}

void SubjectTable::reset_all() noexcept {
  ++resets_.count;
  resets_.order = clock_.order();
}

void SubjectTable::set_restored(SubjectIndex index, uint64_t reset_order,
                                uint64_t reset_all_order) noexcept {
  Subject& subject = pool_[index];
  subject.reset_order = reset_order;
  log_.set_restored(subject, index);
  if (reset_order < reset_all_order) reset_meters(index, reset_all_order);
}

bool SubjectTable::is_idle(SubjectIndex index) noexcept {
  const Subject& subject = current(index);
  if (subject.configured || subject.has_waiters() || subject.held > 0 || subject.to_serve) {
    return false;
  }
  if (subject.quota == nullptr) return true;
  return std::all_of(subject.quota->shapes.begin(), subject.quota->shapes.end(),
                     [&](const MeterShape& shape) {
                       Meter meter(shape, subject.words);
                       meter.roll(clock_.moment());
                       return meter.used() == 0;
                     });
}

void SubjectTable::forget(SubjectIndex index) noexcept {
  Subject& subject = pool_[index];
  ASSERT(!subject.has_waiters() && subject.held == 0);
  log_.forget(subject, index);
  free_meters(subject);
  index_.erase(subject.hash.low, index);
  names_.free(reinterpret_cast<std::byte*>(subject.name), subject.name_bytes);
  pool_.free(index);
  ++statistics_.subjects_forgotten;
}

bool SubjectTable::forget_if_idle(SubjectIndex index) noexcept {
  if (!is_idle(index)) return false;
  forget(index);
  return true;
}

void SubjectTable::sweep(uint32_t count, const LimitedSubjects& kept) noexcept {
  for (; count > 0 && pool_.used() > 0; --count) {
    if (sweep_at_ >= pool_.index_end()) sweep_at_ = 0;
    const SubjectIndex index = sweep_at_++;
    if (!pool_.holds(index) || contains(kept, index)) continue;
    forget_if_idle(index);
  }
}

bool SubjectTable::make_room(const LimitedSubjects& kept) noexcept {
  sweep(eviction_scan, kept);
  return !is_full();
}

uint64_t SubjectTable::reserved_bytes() const noexcept {
  return pool_.reserved_bytes() + index_.reserved_bytes() + names_.reserved_bytes() +
         meters_.reserved_bytes() + holds_.reserved_bytes();
}

void SubjectTable::check_invariants() const noexcept {
  names_.check_invariants();
  meters_.check_invariants();
  to_serve_.check_invariants();
  for (SubjectIndex index = 0; index < pool_.index_end(); ++index) {
    if (!pool_.holds(index)) continue;
    const Subject& subject = pool_[index];
    ASSERT(find(subject.hash) == index);
    if (subject.quota == nullptr) continue;
    ASSERT((subject.words.heads != nullptr) == (subject.quota->head_words > 0));
    ASSERT((subject.words.rings != nullptr) == (subject.quota->ring_words > 0));
    for (const MeterShape& shape : subject.quota->shapes) Meter(shape, subject.words).check();
  }
}

}  // namespace sluice::quota
