// The subjects of one shard: found by name, made at their first use, forgotten when they are idle.
// Flow:   a name -> hash() -> find(), else make() -> current(), which brings a subject to the
//         book's present quota and to the last reset before a call uses it.
// Shape:  a pool of subjects; an index by the hash of their names; arenas for names and meters.
// Errors: make() returns no_subject when the table is full of subjects that are in use.
// Lives:  one thread only; a subject keeps its index and address until it is forgotten, which no
//         call does to the subjects that it names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/object_pool.hpp"
#include "quota/call_clock.hpp"
#include "quota/change_log.hpp"
#include "quota/current_book.hpp"
#include "quota/hash_index.hpp"
#include "quota/held_amounts.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/meter_memory.hpp"
#include "quota/quota_store.hpp"
#include "quota/serve_list.hpp"
#include "quota/slab_arena.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

class SubjectTable {
 public:
  using Pool = base::ObjectPool<Subject>;

  // Subjects that make() checks for an idle one when the table is full.
  static constexpr uint32_t eviction_scan = 1'024;

  // Counts the subjects that it forgets in `statistics`.
  SubjectTable(const Options& options, const CallClock& clock, CurrentBook& book, ChangeLog& log,
               Statistics& statistics);

  NameHash hash(std::string_view name) const noexcept;
  SubjectIndex find(const NameHash& hash) const noexcept;

  // no_subject: there is no room. The subjects in `kept` are not forgotten to make room.
  SubjectIndex make(const NameHash& hash, std::string_view name, CurrentBook::OwnQuota own,
                    const LimitedSubjects& kept) noexcept;

  // A subject by the rules that hold now; without a quota if it has none any more.
  Subject& current(SubjectIndex index) noexcept;
  void read_limited_subject(SubjectIndex index, LimitedSubject& each) noexcept;
  // Those of the list that are of this shard and have a quota, as they are now.
  LimitedSubjects limited_subjects(std::span<const SubjectIndex> named) noexcept;
  // As if a subject were made with this quota; valid until the next call.
  void add_absent(const CompiledQuota& quota, LimitedSubject& each) noexcept;

  // The same where the meters are about to change, or what else its record has.
  Subject& to_change(SubjectIndex index) noexcept {
    Subject& subject = current(index);
    log_.touch(subject, index);
    return subject;
  }
  // The meters of these subjects are about to change.
  void touch(const LimitedSubjects& limited) noexcept {
    if (!log_.is_on()) return;
    for (const LimitedSubject& each : limited) log_.touch(pool_[each.index], each.index);
  }
  // They may be: touch() follows if they have changed.
  void copy_first(const LimitedSubjects& limited) noexcept {
    if (log_.has_frozen_subjects()) copy_each_first(limited);
  }

  // Keeps the usage of limits that stay the same but for their amount. Null: no quota. A subject
  // with waiters is to be served then.
  void change_quota(SubjectIndex index, CurrentBook::OwnQuota own) noexcept;

  // Forgets the usage that is not open. All: each subject when it is next used, with the same
  // effect as at once.
  void reset(SubjectIndex index) noexcept;
  void reset_all() noexcept;

  // Of all subjects.
  struct Resets {
    uint32_t count = 0;
    uint64_t order = 0;  // of the last one
  };
  const Resets& resets() const noexcept { return resets_; }

  // At the start: its meters are those of its record in the file, which has seen this reset. They
  // see the last one of all subjects, too.
  void set_restored(SubjectIndex index, uint64_t reset_order, uint64_t reset_all_order) noexcept;
  void resume_resets(uint64_t order) noexcept { resets_.order = order; }

  // Idle: no usage, no waiters, no reservation that names it, and not configured.
  bool forget_if_idle(SubjectIndex index) noexcept;
  // Forgets the idle ones among the next `count`, but none of `kept`.
  void sweep(uint32_t count, const LimitedSubjects& kept) noexcept;

  Subject& operator[](SubjectIndex index) noexcept { return pool_[index]; }
  const Subject& operator[](SubjectIndex index) const noexcept { return pool_[index]; }
  const Pool& pool() const noexcept { return pool_; }
  const HashIndex& index() const noexcept { return index_; }
  bool is_full() const noexcept { return pool_.used() == pool_.capacity(); }
  std::string_view name_of(SubjectIndex index) const noexcept {
    return {pool_[index].name, pool_[index].name_bytes};
  }

  // The table adds subjects with a queue when their quota changes; other classes add them for other
  // reasons.
  ServeList& to_serve() noexcept { return to_serve_; }
  const ServeList& to_serve() const noexcept { return to_serve_; }

  HeldAmounts& holds() noexcept { return holds_; }
  const HeldAmounts& holds() const noexcept { return holds_; }

  uint64_t reserved_bytes() const noexcept;
  void check_invariants() const noexcept;

 private:
  [[gnu::noinline]] void copy_each_first(const LimitedSubjects& limited) noexcept;
  void refresh(SubjectIndex index) noexcept;
  void reset_meters(SubjectIndex index, uint64_t order) noexcept;
  void free_meters(const Subject& subject) noexcept;
  bool is_idle(SubjectIndex index) noexcept;
  void forget(SubjectIndex index) noexcept;
  bool make_room(const LimitedSubjects& kept) noexcept;

  const CallClock& clock_;
  CurrentBook& book_;
  ChangeLog& log_;
  Statistics& statistics_;
  const uint64_t hash_seed_;
  const uint64_t routing_seed_;
  Pool pool_;
  HashIndex index_;
  SlabArena names_;
  MeterMemory meters_;
  HeldAmounts holds_;
  ServeList to_serve_{pool_};
  Resets resets_;
  SubjectIndex sweep_at_ = 0;
};

// ------------------------------------------------------------------------------ used by every call

inline SubjectIndex SubjectTable::find(const NameHash& hash) const noexcept {
  static_assert(no_subject == HashIndex::none);
  return index_.find(hash.low, [&](uint32_t index) { return pool_[index].hash == hash; });
}

inline Subject& SubjectTable::current(SubjectIndex index) noexcept {
  Subject& subject = pool_[index];
  if (subject.version != book_.version() || subject.resets != resets_.count) refresh(index);
  return subject;
}

inline void SubjectTable::read_limited_subject(SubjectIndex index, LimitedSubject& each) noexcept {
  const Subject& subject = current(index);
  each.index = index;
  each.quota = subject.quota;
  each.words = subject.words;
  each.open = subject.open;
  each.held = holds_.of(subject);
}

}  // namespace sluice::quota
