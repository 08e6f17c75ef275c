// Decides entries one after the other: finds or makes the key, decides, reports.
#include <algorithm>

#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

limiter::Policy overridden(limiter::Policy policy, const api::Overrides& given) noexcept {
  if (given.max_requests != api::keep) policy.max_requests = given.max_requests;
  if (given.max_requests_in_queue != api::keep) {
    policy.max_requests_in_queue = given.max_requests_in_queue;
  }
  if (given.window_ms != api::keep_window) policy.window_ms = given.window_ms;
  ASSERT(policy.max_requests <= limits::permits_max);
  ASSERT(policy.window_ms <= limits::window_ms_max);
  return policy;
}

uint32_t limit_after(const api::Entry& entry, const limiter::Policy& policy) noexcept {
  const bool has_own = entry.overrides().max_requests != api::keep;
  return has_own ? entry.overrides().max_requests : policy.max_requests;
}

bool changes(const limiter::Policy& policy, const api::Entry& entry) noexcept {
  return entry.given_overrides != nullptr && overridden(policy, *entry.given_overrides) != policy;
}

}  // namespace

// Entries take three steps in groups, so that the cache lines that one step prefetches arrive while
// the others work: hash, and prefetch the home bucket; search it, and prefetch the next buckets
// when the key may have overflowed; decide. Memory answers after a hundred nanoseconds and more,
// and the more lines are under way at once the less each costs: hence several groups between two
// steps.
void KeyStore::decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
                      api::ShardId origin) noexcept {
  decide_groups(entries, answers, now, origin, [this](Group& group, size_t) { hash(group); });
}

void KeyStore::decide(std::span<const api::Entry> entries, std::span<const KeyHash> hashes,
                      const Answers& answers, base::Now now, api::ShardId origin) noexcept {
  ASSERT(hashes.size() >= entries.size());
  decide_groups(entries, answers, now, origin, [&](Group& group, size_t first) {
    for (size_t index = 0; index < group.entries.size(); ++index) {
      group.hashes[index] = hashes[first + index];
      table_.prefetch(group.hashes[index]);
    }
  });
}

template <typename FindHashes>
void KeyStore::decide_groups(std::span<const api::Entry> entries, const Answers& answers,
                             base::Now now, api::ShardId origin, FindHashes find_hashes) noexcept {
  ASSERT(answers.verdicts.size() >= entries.size());
  ASSERT(answers.details.size() >= entries.size() && answers.waiters.size() >= entries.size());
  fire_due(base::floor_ms(now.monotonic_ns));
  const size_t groups_count = (entries.size() + Group::entries_max - 1) / Group::entries_max;
  for (size_t hashed = 0; hashed < groups_count + decided_behind; ++hashed) {
    if (hashed < groups_count) {
      const size_t first = hashed * Group::entries_max;
      Group& next = group(hashed);
      next.entries = entries.subspan(first, std::min(Group::entries_max, entries.size() - first));
      find_hashes(next, first);
    }
    if (hashed >= found_behind && hashed - found_behind < groups_count) {
      find_at_home(group(hashed - found_behind));
    }
    if (hashed < decided_behind) continue;
    const size_t decided = hashed - decided_behind;
    find_missed(group(decided));
    decide(group(decided), answers.from(decided * Group::entries_max), now, origin);
  }
  sample_traffic(entries, answers.verdicts, base::floor_ms(now.monotonic_ns));
}

// Samples entries for the traffic. Not inlined: the loops above keep their registers.
[[gnu::noinline]] void KeyStore::sample_traffic(std::span<const api::Entry> entries,
                                                std::span<const Verdict> verdicts,
                                                int64_t now_ms) noexcept {
  traffic_.sample(entries.size(), now_ms, [&](size_t at, uint64_t weight) {
    const api::Entry& entry = entries[at];
    if (entry.op != api::Op::acquire || verdicts[at] == Verdict::invalid_key) return;
    traffic_.add(hash_key(entry.key(), options_.hash_secret), entry.key(), verdicts[at], weight,
                 now_ms);
  });
}

// Flattened: the hash of a short key is a few dozen instructions.
[[gnu::flatten]] void KeyStore::hash(Group& group) const noexcept {
  for (size_t index = 0; index < group.entries.size(); ++index) {
    const api::Entry& entry = group.entries[index];
    const bool is_hashed = entry.key_bytes > 0 && entry.key_bytes <= options_.key_bytes_max;
    const KeyHash hash = is_hashed ? hash_key(entry.key(), options_.hash_secret) : KeyHash{};
    table_.prefetch(hash);
    group.hashes[index] = hash;
  }
}

// Which keys are not at home is unpredictable, one in six of a well filled table: they go into a
// list, so that a group costs one wrong guess instead of two or three a key.
void KeyStore::find_at_home(Group& group) const noexcept {
  group.version = table_.version();
  if (table_.growing()) [[unlikely]]
    return miss_all(group);
  uint32_t missed_count = 0;
  for (size_t index = 0; index < group.entries.size(); ++index) {
    const Place place = table_.find_at_home(group.hashes[index]);
    group.places[index] = place;
    group.missed[missed_count] = static_cast<uint32_t>(index);
    missed_count += place.slot == Bucket::slots_count;
  }
  group.missed_count = missed_count;
  for (uint32_t missed = 0; missed < missed_count; ++missed) {
    table_.prefetch_next(group.hashes[group.missed[missed]]);
  }
}

// A growing table has two arrays: each key is searched in the one that has its home.
[[gnu::noinline]] void KeyStore::miss_all(Group& group) const noexcept {
  group.missed_count = static_cast<uint32_t>(group.entries.size());
  for (uint32_t index = 0; index < group.missed_count; ++index) {
    group.missed[index] = index;
    table_.prefetch_next(group.hashes[index]);
  }
}

void KeyStore::find_missed(Group& group) const noexcept {
  for (uint32_t missed = 0; missed < group.missed_count; ++missed) {
    const size_t index = group.missed[missed];
    group.places[index] = table_.find(group.hashes[index]);
  }
}

// Not inlined: a key was made or forgotten, which is rare, and the loop keeps its registers.
[[gnu::noinline]] Place KeyStore::find_again(const KeyHash& hash) const noexcept {
  return table_.find(hash);
}

void KeyStore::decide(const Group& group, const Answers& answers, base::Now now,
                      api::ShardId origin) noexcept {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  for (size_t index = 0; index < group.entries.size(); ++index) {
    const api::Entry& entry = group.entries[index];
    const KeyHash& hash = group.hashes[index];
    Verdict verdict = Verdict::none;
    if (may_decide_fast(entry, hash)) {
      Place place = group.places[index];
      if (table_.version() != group.version) [[unlikely]]
        place = find_again(hash);
      const bool may_wait = (entry.flags & api::flag::may_wait) != 0;
      if (place) verdict = decide_fast(cell(place), entry.cost, may_wait, now_ms);
    }
    if (verdict != Verdict::none) [[likely]] {
      count(verdict);
    } else {
      verdict = decide_slow({.entry = entry,
                             .hash = hash,
                             .detail = answers.details[index],
                             .waiter = answers.waiters[index],
                             .now = now,
                             .now_ms = now_ms,
                             .origin = origin});
    }
    answers.verdicts[index] = verdict;
  }
}

// An acquire of a valid key that brings no override and wants no details.
inline bool KeyStore::may_decide_fast(const api::Entry& entry, const KeyHash& hash) const noexcept {
  return hash.tag != 0 && entry.op == api::Op::acquire &&
         (entry.flags & api::flag::wants_details) == 0 && entry.given_overrides == nullptr;
}

Verdict KeyStore::decide_slow(const Question& question) noexcept {
  if (question.entry.op == api::Op::release) return release(question);
  if (question.entry.op == api::Op::look) return look(question);
  if (question.entry.op == api::Op::refund) return refund(question);
  const Verdict verdict = acquire(question);
  count(verdict);
  return verdict;
}

// A key that does not exist is shown as a new one would be.
Verdict KeyStore::look(const Question& question) noexcept {
  if (question.hash.tag == 0) return answer_unchanged(question, Verdict::invalid_key);
  answer_unchanged(question, Verdict::approved);
  if ((question.entry.flags & api::flag::wants_details) == 0) return Verdict::approved;
  api::Detail& detail = question.detail;
  detail.request_id = 0;
  if (detail.remaining == 0) detail.retry_after_ms = detail.reset_ms;
  return Verdict::approved;
}

Verdict KeyStore::acquire(const Question& question) noexcept {
  const api::Entry& entry = question.entry;
  if (question.hash.tag == 0) return answer_unchanged(question, Verdict::invalid_key);
  if (override_forbidden(entry.overrides()))
    return answer_unchanged(question, Verdict::not_allowed);
  Place place = find_live(question.hash, question.now_ms);
  const limiter::Policy policy = place ? policy_of(place) : rules_->policy_of(entry.key());
  // Its overrides are not kept either: a request that can never be served is a mistake.
  if (entry.cost > limit_after(entry, policy))
    return answer_unchanged(question, Verdict::never_fits);
  if (!place) place = make_key(question, policy);
  if (!place) return answer_unchanged(question, Verdict::table_full);
  const WindowCell own = cell(place);
  if (own.has_extra()) return acquire_with_extra(question, own.extra());
  return acquire_without_extra(question, place);
}

bool KeyStore::override_forbidden(const api::Overrides& given) const noexcept {
  return (given.max_requests != api::keep && !options_.requests_can_set_rate) ||
         (given.max_requests_in_queue != api::keep && !options_.requests_can_mod_queue) ||
         (given.window_ms != api::keep_window && !options_.requests_can_set_window);
}

// A key without an extra has no waiters. It gets an extra if this entry needs one.
Verdict KeyStore::acquire_without_extra(const Question& question, Place place) noexcept {
  const api::Entry& entry = question.entry;
  const limiter::Policy& policy = policy_of(place);
  WindowCell own = cell(place);
  Window window = own.window();
  window.roll(question.now_ms, policy.window_ms);
  const bool fits = window.fits(entry.cost, policy.max_requests);
  const bool queues = (entry.flags & api::flag::may_wait) != 0 && policy.max_requests_in_queue > 0;
  const bool counts_beyond = !fits && window.denied == WindowCell::denied_max;
  const Verdict no_waiter = !fits && queues ? why_no_waiter(entry, 0) : Verdict::none;
  const bool joins = !fits && queues && no_waiter == Verdict::none;
  if (changes(policy, entry) || joins || counts_beyond) {
    return acquire_with_extra(question, add_extra(place, window, question.hash));
  }
  Verdict verdict = Verdict::approved;
  if (!window.take(entry.cost, policy.max_requests)) {
    verdict = queues ? no_waiter : Verdict::denied;
    if (!queues) window.deny();
  }
  own.set_window(window);
  report(question, window, policy, verdict);
  return verdict;
}

Verdict KeyStore::acquire_with_extra(const Question& question, ExtraIndex index) noexcept {
  KeyExtra& extra = extras_[index];
  roll_and_serve(extra, question.now_ms);
  const int64_t window_before_ms = extra.policy.window_ms;
  change_policy(question, index);
  Verdict verdict = Verdict::denied;
  // A newcomer never overtakes a waiter, whatever its cost.
  if (extra.queue.empty() && extra.window.take(question.entry.cost, extra.policy.max_requests)) {
    verdict = Verdict::approved;
  } else if ((question.entry.flags & api::flag::may_wait) != 0 &&
             extra.queue.size() < extra.policy.max_requests_in_queue) {
    verdict = join_queue(question, index);
  } else {
    extra.window.deny();
  }
  if (verdict == Verdict::approved && extra.policy.window_ms != window_before_ms) {
    extra.window.restart(question.now.monotonic_ns, extra.policy.window_ms);
  }
  report(question, extra.window, extra.policy, verdict);
  if (verdict == Verdict::queued) question.detail.position = extra.queue.size();
  schedule_or_free_extra(index);
  return verdict;
}

// As new rules do: a window of another length begins now, and its counters go on. But only once the
// request is approved may the window end later than it would have: else requests with lengths in
// turn would keep a full one from ending.
void KeyStore::change_policy(const Question& question, ExtraIndex index) noexcept {
  KeyExtra& extra = extras_[index];
  if (!changes(extra.policy, question.entry)) return;
  const limiter::Policy old = extra.policy;
  extra.policy = overridden(old, question.entry.overrides());
  note_extra(extra.policy);
  const int64_t end_ms = extra.window.end_ms;
  anchor(extra.window, old.window_ms, extra.policy.window_ms, question.now);
  extra.window.end_by(end_ms);
  extra.queue.expel_above(extra.policy.max_requests, [&](Waiter& waiter) {
    grant(waiter, extra, Verdict::never_fits, question.now_ms);
  });
  serve(extra, question.now_ms);
  const bool is_evictable_earlier =
      extra.policy == extra.rules_policy || extra.policy.window_ms < old.window_ms;
  if (is_evictable_earlier) restart_eviction_search();
}

// Whose bound keeps the entry from joining a queue of that size; `none`: it may join.
Verdict KeyStore::why_no_waiter(const api::Entry& entry, uint32_t queue_size) const noexcept {
  // Grants that the worker has not fetched yet count as waiters: their list has room for
  // waiters_max.
  const size_t taken = waiters_.used() + grants_.size();
  const bool is_full = taken >= waiters_.capacity();
  if (is_full || (entry.flags & api::flag::waiters_full) != 0) return Verdict::waiters_full;
  if (queue_size >= waiters_.capacity() - taken) return Verdict::key_waiters_full;
  const bool has_share = (entry.flags & api::flag::connection_waiters_full) == 0;
  return has_share ? Verdict::none : Verdict::connection_waiters_full;
}

Verdict KeyStore::join_queue(const Question& question, ExtraIndex index) noexcept {
  const api::Entry& entry = question.entry;
  const Verdict refusal = why_no_waiter(entry, extras_[index].queue.size());
  if (refusal != Verdict::none) return refusal;
  if ((entry.flags & api::flag::draining) != 0) return Verdict::draining;
  const api::WaiterId id = waiters_.take(entry.ticket, question.origin, entry.cost, index);
  Waiter& waiter = waiters_[id];
  waiter.id = id;
  waiter.deadline.owner = waiter_timer | id;
  if (entry.wait_ms_max > 0) {
    timers_.schedule(waiter.deadline, base::ceil_ms(question.now.monotonic_ns) + entry.wait_ms_max);
  }
  extras_[index].queue.join(waiter);
  question.waiter = id;
  return Verdict::queued;
}

// Releases permits of a live key; of any other there are none to release.
Verdict KeyStore::release(const Question& question) noexcept {
  const bool wants_details = (question.entry.flags & api::flag::wants_details) != 0;
  if (wants_details) question.detail = {};
  if (question.hash.tag == 0) return Verdict::approved;
  const Place place = find_live(question.hash, question.now_ms);
  if (!place) return Verdict::approved;
  ++statistics_.released;
  if (wants_details) question.detail.limit = policy_of(place).max_requests;
  release_permits(place, question.entry.cost, question.now_ms);
  return Verdict::approved;
}

// Waiters get the permits first.
void KeyStore::release_permits(Place place, uint32_t cost, int64_t now_ms) noexcept {
  WindowCell own = cell(place);
  if (!own.has_extra()) {
    Window window = own.window();
    window.roll(now_ms, policy_of(place).window_ms);
    window.release(cost);
    own.set_window(window);
    return;
  }
  const ExtraIndex index = own.extra();
  KeyExtra& extra = extras_[index];
  roll_and_serve(extra, now_ms);
  extra.window.release(cost);
  serve(extra, now_ms);
  schedule_or_free_extra(index);
}

// Never of a window that began after the permits were taken.
Verdict KeyStore::refund(const Question& question) noexcept {
  if (question.hash.tag == 0) return Verdict::approved;
  const Place place = find_live(question.hash, question.now_ms);
  if (!place) return Verdict::approved;
  const int64_t window_ms = policy_of(place).window_ms;
  Window window = window_of(place);
  window.roll(question.now_ms, window_ms);
  if (window.begin_ms(window_ms) > question.entry.not_after_ms(question.now_ms)) {
    return Verdict::approved;
  }
  release_permits(place, question.entry.cost, question.now_ms);
  return Verdict::approved;
}

// A claim may come from anyone who reaches the port: no key has the tag 0, but empty slots have.
bool KeyStore::refund(const api::RefundClaim& permit, base::Now now) noexcept {
  if (permit.key_tag == 0) return false;
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  fire_due(now_ms);
  const Place place = find_live({.tag = permit.key_tag, .position = permit.key_position}, now_ms);
  if (!place) return false;
  Window window = window_of(place);
  window.roll(now_ms, policy_of(place).window_ms);
  if (window.end_ms != permit.window_end_ms) return false;
  release_permits(place, permit.cost, now_ms);
  return true;
}

// Changes nothing. The details are those of the key if there is one, else of any new key.
Verdict KeyStore::answer_unchanged(const Question& question, Verdict verdict) noexcept {
  if ((question.entry.flags & api::flag::wants_details) == 0) return verdict;
  Window window = Window::unused_at(question.now_ms);
  limiter::Policy policy = rules_->default_policy();
  const Place place = question.hash.tag != 0 ? find_live(question.hash, question.now_ms) : Place{};
  if (place) {
    policy = policy_of(place);
    window = window_of(place);
    window.roll(question.now_ms, policy.window_ms);
  } else if (question.hash.tag != 0) {
    policy = rules_->policy_of(question.entry.key());
  }
  report(question, window, policy, verdict);
  return verdict;
}

// The request id is not the shard's: it stays as it is.
inline void KeyStore::report(const Question& question, const Window& window,
                             const limiter::Policy& policy, Verdict verdict) const noexcept {
  if (verdict != Verdict::queued && (question.entry.flags & api::flag::wants_details) == 0) return;
  api::Detail& detail = question.detail;
  detail.limit = policy.max_requests;
  detail.remaining = window.remaining(policy.max_requests);
  detail.window_ms = policy.window_ms;
  detail.reset_ms = window.reset_ms(question.now_ms, policy.window_ms);
  detail.retry_after_ms = retry_after_ms(verdict, detail.reset_ms);
  detail.position = 0;
}

}  // namespace sluice::shard
