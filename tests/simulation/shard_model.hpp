// What a shard must decide, written the slow and obvious way: a map of keys, a deque of waiters,
// one entry after the other. Shares no code with shard/ and limiter/.
// Flow:   the calls a worker makes on its shard, in their order -> verdicts, details, grants.
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
#include "shard/shard.hpp"

namespace sluice::simulation {

class ShardModel {
 public:
  struct Waiter {
    api::Ticket ticket;
    uint32_t cost;
    int64_t deadline_ms;  // INT64_MAX: none
  };

  struct Key {
    limiter::Policy base;  // as the rules have it
    uint32_t limit;
    uint32_t queue_max;
    int64_t window_end_ms;
    uint64_t approved = 0;
    uint64_t denied = 0;
    std::deque<Waiter> line;
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

  // Everything that is due at `now`: each call on a shard does that first.
  void run_due(base::Now now);
  // `table_full`: the shard has no room for a new key, whatever it forgets.
  Answer decide(const api::Entry& entry, base::Now now, bool table_full);
  bool withdraw(api::Ticket ticket, base::Now now);
  bool abandon(api::Ticket ticket, base::Now now);
  void drain(base::Now now);
  // Every key is matched anew, at once.
  void adopt(Rules rules, base::Now now);
  // Of a granted waiter that was gone: counts only in the window it was granted in.
  bool refund(const std::string& key, uint32_t cost, int64_t window_end_ms, base::Now now);

  // Outcomes that nobody has fetched. Only the order within one key means anything.
  const std::vector<Grant>& grants() const { return grants_; }
  // Those of these tickets stay.
  void keep_grants(const std::set<api::Ticket>& tickets) {
    std::erase_if(grants_, [&](const Grant& grant) { return !tickets.contains(grant.ticket); });
  }

  // Null when the key is not live at `now`.
  const Key* find(const std::string& key, base::Now now);
  const std::map<std::string, Key>& keys() const { return keys_; }
  uint32_t waiters_count() const { return static_cast<uint32_t>(waiters_.size()); }

  // Nobody waits for it, or has used it for three whole windows.
  bool has_expired(const Key& key, base::Now now) const;

  // A full table may forget this key: past its window, and a fresh start would show nothing of it.
  bool may_be_evicted(const Key& key, base::Now now) const;
  void evict(const std::string& key) { keys_.erase(key); }

  // As an inspection shows it: in the window that runs at `now`.
  api::KeyState state(const Key& key, base::Now now) const;

 private:
  Answer acquire(const api::Entry& entry, base::Now now, bool table_full);
  void release(const api::Entry& entry, base::Now now);
  Answer refuse(api::Verdict verdict, const std::string& key, base::Now now);
  void change_policy(const api::Entry& entry, const std::string& name, Key& key, int64_t now_ms);
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
  std::map<api::Ticket, std::string> waiters_;  // whose line each is in
  std::vector<Grant> grants_;
};

}  // namespace sluice::simulation
