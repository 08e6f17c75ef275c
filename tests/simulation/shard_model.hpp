// Decides what a shard must decide, in the slow and obvious way: a map of keys, a deque of waiters,
// one entry after the other. Shares no code with shard/ and limiter/.
// Flow:   the calls of a worker on its shard, in their order -> verdicts, details, grants.
// Shape:  a window belongs to its key and is anchored at the key's first request; it ends when
//         `now` in whole milliseconds has reached its end. Due times are handled in time's order,
//         a window's end before a wait limit of the same millisecond.
// Units:  permits; milliseconds, `now` in nanoseconds.
// Source: docs/architecture.md, the specification's section 2 as amended by its section 0.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "base/time.hpp"
#include "shard/key_shard.hpp"

namespace sluice::simulation {

class ShardModel {
 public:
  struct Waiter {
    api::Ticket ticket;
    uint32_t cost;
    int64_t deadline_ms;  // INT64_MAX: none
  };

  struct Key {
    limiter::Policy base;  // by the rules
    uint32_t limit;
    uint32_t queue_max;
    int64_t window_ms;
    int64_t window_end_ms;
    uint64_t approved = 0;
    uint64_t denied = 0;
    std::deque<Waiter> queue;
  };

  struct Answer {
    api::Verdict verdict;
    api::Detail detail;
  };

  struct Grant {
    std::string key;
    api::Ticket ticket;
    api::Verdict verdict;
    api::Detail detail;
  };

  using Rules = std::function<limiter::Policy(const std::string&)>;

  explicit ShardModel(const shard::Options& options)
      : options_(options), rules_([options](const std::string&) { return options.policy; }) {}

  // Does everything that is due at `now`: each call on a shard does that first.
  void run_due(base::Now now);
  // The first end of a window or of a wait of any waiter.
  int64_t next_due_ms() const;
  // `table_full`: the shard has no room for a new key, and no key that it may forget.
  Answer decide(const api::Entry& entry, base::Now now, bool table_full);
  bool withdraw(api::Ticket ticket, base::Now now);
  bool abandon(api::Ticket ticket, base::Now now);
  void drain(base::Now now);
  // Matches every key to the new rules, at once.
  void adopt(Rules rules, base::Now now);
  // Refunds an undelivered grant: only while its window runs.
  bool refund(const std::string& key, uint32_t cost, int64_t window_end_ms, base::Now now);

  // Outcomes that the worker has not taken. Only the order within one key is significant.
  const std::vector<Grant>& grants() const { return grants_; }
  // Keeps the grants of these tickets.
  void keep_grants(const std::set<api::Ticket>& tickets) {
    std::erase_if(grants_, [&](const Grant& grant) { return !tickets.contains(grant.ticket); });
  }

  // Null when the key is not live at `now`.
  const Key* find(const std::string& key, base::Now now);
  const std::map<std::string, Key>& keys() const { return keys_; }
  uint32_t waiters_count() const { return static_cast<uint32_t>(waiters_.size()); }

  // The key has no waiters, and was not used for three whole windows.
  bool has_expired(const Key& key, base::Now now) const;

  // A full table may forget this key: its window is over, it has no waiters and no overrides.
  bool may_be_evicted(const Key& key, base::Now now) const;
  void evict(const std::string& key) { keys_.erase(key); }

  // The state that an inspection shows: in the window that runs at `now`.
  api::KeyState state(const Key& key, base::Now now) const;

 private:
  Answer acquire(const api::Entry& entry, base::Now now, bool table_full);
  Answer look(const api::Entry& entry, base::Now now);
  void release(const api::Entry& entry, base::Now now);
  Answer refuse(api::Verdict verdict, const std::string& key, base::Now now);
  void change_policy(const api::Entry& entry, const std::string& name, Key& key, base::Now now);
  void set_window(Key& key, int64_t window_ms, base::Now now) const;
  void limit(uint32_t permits, const std::string& name, Key& key, int64_t now_ms);
  std::optional<Waiter> take_out(api::Ticket ticket, std::string& name);
  void run_due_key(const std::string& name, Key& key, int64_t now_ms);
  void roll(Key& key, int64_t now_ms) const;
  void serve(const std::string& name, Key& key, int64_t now_ms);
  void grant(const std::string& name, const Key& key, const Waiter& waiter, api::Verdict verdict,
             int64_t now_ms);
  api::Detail detail(const Key& key, api::Verdict verdict, int64_t now_ms) const;

  shard::Options options_;
  Rules rules_;
  std::map<std::string, Key> keys_;
  std::map<api::Ticket, std::string> waiters_;  // the key of each waiter
  std::vector<Grant> grants_;
};

}  // namespace sluice::simulation
