// The work of a KeyShard: decisions on keys, their queues of waiters, and forgetting them.
// Flow:   decide: in groups; while one is decided, the keys of the next are searched and those of
//         the one after it are hashed. Most entries end in decide_fast, the fast path for a key
//         that has no extra.
// Shape:  key_store_decide.cpp (entries), key_store_queue.cpp (waiters and timers),
//         key_store_forget.cpp (expiry and the full table), key_store_rules.cpp (new rules),
//         key_store_inspect.cpp (views), key_store_handle.cpp (keys by number), key_store_keep.cpp
//         (what survives a restart).
// Units:  permits; `now_ms` is monotonic time rounded down.
// Errors: none: every outcome is a Verdict.
// Lives:  as KeyShard, which is its public face.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/object_pool.hpp"
#include "base/time.hpp"
#include "base/timer_wheel.hpp"
#include "shard/algorithm.hpp"
#include "shard/handle_book.hpp"
#include "shard/key_extra.hpp"
#include "shard/key_hash.hpp"
#include "shard/key_shard.hpp"
#include "shard/key_table.hpp"
#include "shard/key_traffic.hpp"
#include "shard/match_share.hpp"
#include "shard/policy_classes.hpp"
#include "shard/waiter_queue.hpp"

namespace sluice::shard {

class KeyStore {
 public:
  explicit KeyStore(const Options& options);

  // As in KeyShard.
  void decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
              api::ShardId origin) noexcept;
  void decide(std::span<const api::Entry> entries, std::span<const KeyHash> hashes,
              const Answers& answers, base::Now now, api::ShardId origin) noexcept;
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept;
  api::Handle intern(std::string_view key) noexcept {
    return handles_.intern(hash_key(key, options_.hash_secret), key);
  }
  void drop_reference(api::Handle handle) noexcept;
  const HandleBook& handles() const noexcept { return handles_; }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept;
  bool refund(const api::RefundClaim& claim, base::Now now) noexcept;
  void drain(base::Now now) noexcept;
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept;
  void run_due(base::Now now) noexcept;
  bool is_sweep_behind() const noexcept { return sweep_behind_; }
  int64_t next_due_ns() const noexcept;
  std::span<api::Grant> grants() noexcept { return grants_; }
  void keep_grants(size_t count) noexcept { grants_.resize(count); }
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept;
  Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept;
  std::span<const HeavyKey> heaviest_keys(uint32_t keys_max, base::Now now) noexcept;
  bool may_have_kept_windows() const noexcept;
  uint64_t write_windows(const WindowsToWrite& which, state::WindowSink& sink,
                         base::Now now) noexcept;
  Restoring restore(const state::WindowRecord& window, base::Now now) noexcept;
  uint32_t keys_count() const noexcept { return table_.keys_count(); }
  uint32_t waiters_count() const noexcept { return waiters_.used(); }
  const Statistics& statistics() const noexcept { return statistics_; }
  uint64_t reserved_bytes() const noexcept;
  void check_invariants(base::Now now) const noexcept;

 private:
  using ExtraIndex = base::ObjectPool<KeyExtra>::Index;

  // Entries that are looked up together, and what is known of their keys.
  struct Group {
    static constexpr size_t entries_max = 16;
    std::span<const api::Entry> entries;
    std::array<KeyHash, entries_max> hashes;
    std::array<Place, entries_max> places;
    std::array<uint32_t, entries_max> missed;  // indexes of the keys that are not at home
    uint32_t missed_count;
    uint32_t version;  // of the table, when the places were found
  };

  // One entry, where its answer goes, and when it is decided.
  struct Question {
    const api::Entry& entry;
    const KeyHash& hash;
    api::Detail& detail;
    api::WaiterId& waiter;
    base::Now now;
    int64_t now_ms;
    api::ShardId origin;
  };

  // How many groups a step is behind the first one.
  static constexpr size_t found_behind = 2;
  static constexpr size_t decided_behind = 3;
  Group& group(size_t number) noexcept { return groups_[number % groups_.size()]; }

  // Deciding.
  template <typename FindHashes>
  void decide_groups(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
                     api::ShardId origin, FindHashes find_hashes) noexcept;
  void hash(Group& group) const noexcept;
  void find_at_home(Group& group) const noexcept;
  void miss_all(Group& group) const noexcept;
  void find_missed(Group& group) const noexcept;
  Place find_again(const KeyHash& hash) const noexcept;
  void decide(const Group& group, const Answers& answers, base::Now now,
              api::ShardId origin) noexcept;
  bool may_decide_fast(const api::Entry& entry, const KeyHash& hash) const noexcept;
  api::Verdict decide_fast(WindowCell own, uint32_t cost, bool may_wait, int64_t now_ms) noexcept;
  api::Verdict decide_slow(const Question& question) noexcept;
  api::Verdict look(const Question& question) noexcept;
  api::Verdict acquire(const Question& question) noexcept;
  api::Verdict acquire_without_extra(const Question& question, Place place) noexcept;
  api::Verdict acquire_with_extra(const Question& question, ExtraIndex index) noexcept;
  api::Verdict join_queue(const Question& question, ExtraIndex index) noexcept;
  api::Verdict release(const Question& question) noexcept;
  api::Verdict refund(const Question& question) noexcept;
  void release_permits(Place place, uint32_t cost, int64_t now_ms) noexcept;
  bool override_forbidden(const api::Overrides& overrides) const noexcept;
  void change_policy(const Question& question, ExtraIndex index) noexcept;
  api::Verdict why_no_waiter(const api::Entry& entry, uint32_t queue_size) const noexcept;
  void sample_traffic(std::span<const api::Entry> entries, std::span<const api::Verdict> verdicts,
                      int64_t now_ms) noexcept;
  void sample_traffic(std::span<const api::Handle> handles, std::span<const api::Verdict> verdicts,
                      int64_t now_ms) noexcept;
  void count(api::Verdict verdict) noexcept {
    ++statistics_.decisions[static_cast<size_t>(verdict)];
  }
  api::Verdict answer_unchanged(const Question& question, api::Verdict verdict) noexcept;
  void report(const Question& question, const Window& window, const limiter::Policy& policy,
              api::Verdict verdict) const noexcept;

  // By handle.
  api::Verdict decide_handle_slot(api::Handle handle, base::Now now, int64_t now_ms) noexcept;
  api::Verdict decide_indirect(api::Handle handle, base::Now now, int64_t now_ms) noexcept;
  bool is_current(KeyCell handle_slot, int64_t now_ms) const noexcept;
  void move_to_handle_slot(api::Handle handle) noexcept;
  void move_to_bucket(api::Handle handle) noexcept;

  // Keys.
  Place find_live(const KeyHash& hash, int64_t now_ms) noexcept;
  Place make_key(const Question& question, const limiter::Policy& policy) noexcept;
  WindowCell cell(Place place) const noexcept {
    const KeyCell own = place.bucket->cell(place.slot);
    return WindowCell(own.has_handle_slot() ? handles_.handle_slot(own.handle_slot()) : own);
  }
  void leave(KeyCell own) noexcept;
  const limiter::Policy& policy_of(Place place) const noexcept;
  Window window_of(Place place) const noexcept;
  void put(Place place, const Window& window, const limiter::Policy& policy,
           const KeyHash& hash) noexcept;
  ExtraIndex take_extra(Place place, const Window& window, const limiter::Policy& policy,
                        const KeyHash& hash) noexcept;
  ExtraIndex add_extra(Place place, const Window& window, const KeyHash& hash) noexcept;
  void drop_extra(Place place, const Window& window) noexcept;

  // Rules.
  bool is_stale(Place place) const noexcept;
  void refresh(Place place, int64_t now_ms) noexcept;
  void refresh(ExtraIndex index, int64_t now_ms) noexcept;
  void refresh_waiting(int64_t now_ms) noexcept;
  base::Now stale_since(uint32_t rules_version) const noexcept;
  static void anchor(Window& window, int64_t from_ms, int64_t to_ms, base::Now since) noexcept;

  // Queues.
  void roll_and_serve(KeyExtra& extra, int64_t now_ms) noexcept;
  void serve(KeyExtra& extra, int64_t now_ms) noexcept;
  void schedule_or_free_extra(ExtraIndex index) noexcept;
  void grant(Waiter& waiter, KeyExtra& extra, api::Verdict verdict, int64_t now_ms) noexcept;
  bool take_out(api::WaiterId waiter, api::Ticket ticket, api::ShardId origin,
                bool grants_withdrawn, base::Now now) noexcept;
  void fire_due(int64_t now_ms) noexcept;
  void end_window(ExtraIndex index, int64_t now_ms) noexcept;
  void end_wait(api::WaiterId waiter, int64_t now_ms) noexcept;

  // Forgetting.
  bool expired(Place place, int64_t now_ms) const noexcept;
  void report_expired(Place place) noexcept;
  void forget(Place place) noexcept;
  void sweep(int64_t now_ms) noexcept;
  // Of a bucket that is walked over soon: so many ahead.
  static constexpr uint32_t buckets_ahead = 16;
  void prefetch_handle_slots(Bucket& bucket) const noexcept;
  bool make_room(int64_t now_ms) noexcept;
  int64_t evictable_ms(Place place, int64_t now_ms) const noexcept;
  void restart_eviction_search() noexcept;

  // What survives a restart.
  bool is_kept(Place place, int64_t now_ms) const noexcept;
  void write_window(Place place, state::WindowSink& sink) const noexcept;
  void note_extra(const limiter::Policy& policy) noexcept {
    if (policy.window_ms >= options_.kept_window_ms) may_have_kept_extras_ = true;
  }

  // Views.
  // Every key with a position in [first, end), until visit() returns false; whether it never did.
  template <typename Visit>
  bool visit_keys(const BucketArray& array, uint64_t first, uint64_t end,
                  Visit visit) const noexcept;
  api::KeyState state(Place place, int64_t now_ms) const noexcept;
  std::span<const uint32_t> first_waiting_costs(Place place) noexcept;
  bool add_to_page(uint64_t first, uint64_t end, uint32_t wanted, int64_t now_ms) noexcept;
  bool add_to_page(const BucketArray& array, uint64_t first, uint64_t end, uint32_t room,
                   int64_t now_ms) noexcept;
  void check_keys() const noexcept;
  void check_handle_slots(uint32_t handle_slots_count) const noexcept;
  void check_queues(int64_t now_ms) const noexcept;

  Options options_;
  std::unique_ptr<policy::RuleBook> rules_;
  uint32_t rules_version_ = 0;              // of the rules
  std::array<base::Now, 64> adopted_at_{};  // when the last rules were adopted, by rules_version
  std::array<Group, decided_behind + 1>
      groups_;  // a member: clearing them for each call costs more than hashing a group
  api::WaiterId refresh_from_ =
      api::no_waiter;  // from here on waiters' keys still follow old rules
  PolicyClasses classes_;
  MatchShare match_share_;
  KeyTable table_;
  HandleBook handles_;
  base::ObjectPool<Waiter> waiters_;
  base::ObjectPool<KeyExtra>
      extras_;  // behind waiters_: their queues unlink the waiters when they end
  base::TimerWheel timers_;
  std::vector<api::Grant> grants_;
  std::vector<api::KeyState> page_;
  std::vector<uint32_t> waiting_costs_;  // of the inspected key
  Statistics statistics_;
  KeyTraffic traffic_;

  // The sweep for expired keys.
  uint32_t swept_bucket_ = 0;
  int64_t swept_ms_ = 0;
  bool sweep_behind_ = false;  // there was more to sweep than one call may

  // A key with an extra may have had a window that survives a restart, since the last walk over
  // all keys began.
  bool may_have_kept_extras_ = false;

  // The search for a key to evict in a full table.
  uint32_t eviction_bucket_ = 0;
  uint32_t searched_buckets_ = 0;       // searched in a row without success
  int64_t first_evictable_ms_ = 0;      // when the first of their keys may be evicted
  int64_t eviction_not_before_ms_ = 0;  // a whole lap found none: no search until then
};

// The fast path: a live key without an extra, and an answer that needs none. Else `none`, and
// nothing was changed. The caller counts the verdict. A key of earlier rules goes on with them when
// the turn has matched its share of keys.
inline api::Verdict KeyStore::decide_fast(WindowCell own, uint32_t cost, bool may_wait,
                                          int64_t now_ms) noexcept {
  if (own.is_indirect()) [[unlikely]]
    return api::Verdict::none;
  const PolicyClasses::Class& by = classes_[own.policy()];
  if (by.stale && match_share_.has_left()) [[unlikely]]
    return api::Verdict::none;
  return decide_in_place(own, by.policy, cost, may_wait, now_ms);
}

// Their homes come first, and behind the last home whatever flowed over.
template <typename Visit>
bool KeyStore::visit_keys(const BucketArray& array, uint64_t first, uint64_t end,
                          Visit visit) const noexcept {
  const uint32_t last_home = array.home(static_cast<uint32_t>(end - 1));
  const uint32_t first_home = array.home(static_cast<uint32_t>(first));
  uint32_t index = first_home;
  bool homes_left = true;
  do {
    Bucket& bucket = array.bucket(index);
    if (index + buckets_ahead < array.buckets_count()) {
      prefetch_handle_slots(array.bucket(index + buckets_ahead));
    }
    for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
      const Place place{&bucket, slot};
      if (bucket.tags[slot] == 0) continue;
      const uint64_t position = array.cold(place).position;
      if (position < first || position >= end) continue;
      if (!visit(place)) return false;
    }
    if (index == last_home) homes_left = false;
    if (!homes_left && bucket.overflow == 0) return true;
    index = array.after(index);
  } while (index != first_home);
  return true;
}

// Handle slots lie anywhere: waiting for each would cost a shard of ten million of them a quarter
// of its time.
inline void KeyStore::prefetch_handle_slots(Bucket& bucket) const noexcept {
  for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
    const KeyCell own = bucket.cell(slot);
    if (bucket.tags[slot] != 0 && own.has_handle_slot()) handles_.prefetch(own.handle_slot());
  }
}

// In the owner word of a timer: it is a waiter's, else an extra's.
inline constexpr uint64_t waiter_timer = uint64_t{1} << 32;

// When a retry may help: with the next window, or never, or at once.
constexpr int64_t retry_after_ms(api::Verdict verdict, int64_t reset_ms) noexcept {
  switch (verdict) {
    case api::Verdict::denied:
    case api::Verdict::queued:
    case api::Verdict::waiters_full:
    case api::Verdict::connection_waiters_full:
    case api::Verdict::key_waiters_full:
    case api::Verdict::wait_limit:
      return reset_ms;
    default:
      return 0;
  }
}

}  // namespace sluice::shard
