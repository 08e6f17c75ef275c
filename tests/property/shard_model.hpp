// The answers that a KeyShard must give, worked out slowly and obviously: a map of keys, a deque of
// waiters each, every event found by checking everything. Shares no code with src/limiter or
// src/shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "shard/key_shard.hpp"

namespace sluice::shard {

class ShardModel {
 public:
  struct Waiter {
    api::Ticket ticket;
    uint32_t cost;
    std::optional<int64_t> deadline_ms;
  };
  struct Key {
    int64_t anchor_ms = 0;
    int64_t windows_passed = 0;  // the current window's number since the anchor
    uint64_t approved = 0;
    uint64_t denied = 0;
    limiter::Policy base;  // as the rules have it
    uint32_t limit = 0;
    uint32_t queue_max = 0;
    int64_t window_ms = 0;
    std::deque<Waiter> waiters;
  };
  struct Grant {
    std::string key;
    api::Ticket ticket;
    api::Verdict verdict;
    api::Detail detail;
  };

  using Rules = std::function<limiter::Policy(const std::string&)>;

  explicit ShardModel(const Options& options)
      : options_(options), rules_([options](const std::string&) { return options.policy; }) {}

  void adopt(Rules rules) {
    fire();
    forget_expired();
    rules_ = std::move(rules);
    for (auto& [name, key] : keys_) {
      const limiter::Policy base = rules_(name);
      if (base == key.base) continue;
      if (!key.waiters.empty()) roll(name, key);
      set_window(name, key, base.window_ms);
      key.base = base;
      key.limit = base.max_requests;
      key.queue_max = base.max_requests_in_queue;
      expel(name, key);
      serve(name, key);
    }
  }

  // `table_full`: answer so if this makes a key. The caller knows whether that is legal.
  api::Verdict acquire(const std::string& name, const api::Entry& entry, bool table_full,
                       api::Detail& detail) {
    fire();
    const api::Verdict verdict = judge(name, entry, table_full);
    const bool refused =
        verdict == api::Verdict::never_fits || verdict == api::Verdict::not_allowed ||
        verdict == api::Verdict::invalid_key || verdict == api::Verdict::table_full;
    if (refused) return refuse(name, verdict, detail);
    const Key& key = keys_.at(name);
    detail = view(key, verdict);
    if (verdict == api::Verdict::queued)
      detail.position = static_cast<uint32_t>(key.waiters.size());
    return verdict;
  }

  // Changes nothing.
  api::Verdict look(const std::string& name, api::Detail& detail) {
    fire();
    if (name.empty() || name.size() > options_.key_bytes_max) {
      return refuse(name, api::Verdict::invalid_key, detail);
    }
    refuse(name, api::Verdict::approved, detail);
    if (detail.remaining == 0) detail.retry_after_ms = detail.reset_ms;
    return api::Verdict::approved;
  }

  void release(const std::string& name, uint32_t cost) {
    fire();
    if (!live(name)) return;
    Key& key = keys_.at(name);
    roll(name, key);
    key.approved -= std::min<uint64_t>(key.approved, cost);
    serve(name, key);
  }

  // False when it no longer waits.
  bool leave(api::Ticket ticket, bool reported) {
    fire();
    for (auto& [name, key] : keys_) {
      for (auto it = key.waiters.begin(); it != key.waiters.end(); ++it) {
        if (it->ticket != ticket) continue;
        key.waiters.erase(it);
        if (reported) grant(name, key, ticket, api::Verdict::withdrawn);
        roll(name, key);
        serve(name, key);
        return true;
      }
    }
    return false;
  }

  void drain() {
    fire();
    for (auto& [name, key] : keys_) {
      for (const Waiter& waiter : key.waiters) {
        grant(name, key, waiter.ticket, api::Verdict::draining);
      }
      key.waiters.clear();
    }
  }

  // Everything due, in the order of its time; a window's end before a wait limit.
  void fire() {
    for (;;) {
      std::string due_name;
      int64_t due_ms = INT64_MAX;
      std::optional<api::Ticket> due_waiter;
      for (const auto& [name, key] : keys_) {
        if (key.waiters.empty()) continue;
        if (end_ms(key) <= now_ms() && end_ms(key) < due_ms) {
          due_ms = end_ms(key);
          due_name = name;
          due_waiter.reset();
        }
        for (const Waiter& waiter : key.waiters) {
          if (!waiter.deadline_ms || *waiter.deadline_ms > now_ms()) continue;
          if (*waiter.deadline_ms >= due_ms) continue;
          due_ms = *waiter.deadline_ms;
          due_name = name;
          due_waiter = waiter.ticket;
        }
      }
      if (due_ms == INT64_MAX) return;
      Key& key = keys_.at(due_name);
      if (!due_waiter) {
        roll(due_name, key);
      } else {
        std::erase_if(key.waiters,
                      [&](const Waiter& waiter) { return waiter.ticket == due_waiter; });
        grant(due_name, key, *due_waiter, api::Verdict::wait_limit);
        if (end_ms(key) > now_ms()) serve(due_name, key);
      }
    }
  }

  bool live(const std::string& name) const {
    const auto found = keys_.find(name);
    return found != keys_.end() && !expired(found->second);
  }

  // Past its window, and a fresh start would show nothing of it.
  bool evictable(const Key& key) const {
    return key.waiters.empty() && end_ms(key) <= now_ms() && key.limit == key.base.max_requests &&
           key.queue_max == key.base.max_requests_in_queue && key.window_ms == key.base.window_ms;
  }

  void forget_expired() {
    std::erase_if(keys_, [&](const auto& entry) { return expired(entry.second); });
  }
  void forget(const std::string& name) { keys_.erase(name); }
  const std::map<std::string, Key>& keys() const { return keys_; }

  api::KeyState state(const std::string& name) const {
    Key key = keys_.at(name);
    if (end_ms(key) <= now_ms()) key.approved = key.denied = 0;
    while (end_ms(key) <= now_ms()) ++key.windows_passed;
    return {.key = keys_.find(name)->first,
            .window_ms = key.window_ms,
            .reset_ms = reset_ms(key),
            .max_requests = key.limit,
            .max_requests_in_queue = key.queue_max,
            .approved = static_cast<uint32_t>(key.approved),
            .denied = static_cast<uint32_t>(key.denied),
            .waiting = static_cast<uint32_t>(key.waiters.size())};
  }

  int64_t end_ms(const Key& key) const {
    return key.anchor_ms + (key.windows_passed + 1) * key.window_ms;
  }
  size_t waiting() const {
    size_t count = 0;
    for (const auto& [name, key] : keys_) count += key.waiters.size();
    return count;
  }

  int64_t now_ns = 0;
  std::vector<Grant> grants;

 private:
  int64_t now_ms() const { return now_ns / 1'000'000; }

  // The details are those of the key if there is one, else of a new one.
  api::Verdict refuse(const std::string& name, api::Verdict verdict, api::Detail& detail) const {
    if (live(name)) {
      detail = view(keys_.at(name), verdict);
      return verdict;
    }
    const limiter::Policy policy =
        verdict == api::Verdict::invalid_key ? options_.policy : rules_(name);
    detail = {.limit = policy.max_requests,
              .remaining = policy.max_requests,
              .window_ms = policy.window_ms};
    return verdict;
  }
  int64_t now_rounded_up_ms() const { return (now_ns + 999'999) / 1'000'000; }

  // A first window may last up to a millisecond longer than the policy says; this hides that.
  int64_t reset_ms(const Key& key) const { return std::min(end_ms(key) - now_ms(), key.window_ms); }

  bool expired(const Key& key) const {
    return key.waiters.empty() && now_ms() >= end_ms(key) + 3 * key.window_ms;
  }

  api::Verdict judge(const std::string& name, const api::Entry& entry, bool table_full) {
    if (name.empty() || name.size() > options_.key_bytes_max) return api::Verdict::invalid_key;
    const api::Overrides given = entry.overrides();
    const bool sets_limit = given.max_requests != api::keep;
    const bool sets_queue = given.max_requests_in_queue != api::keep;
    const bool sets_window = given.window_ms != api::keep_window;
    if (sets_limit && !options_.requests_can_set_rate) return api::Verdict::not_allowed;
    if (sets_queue && !options_.requests_can_mod_queue) return api::Verdict::not_allowed;
    if (sets_window && !options_.requests_can_set_window) return api::Verdict::not_allowed;
    const uint32_t own = live(name) ? keys_.at(name).limit : rules_(name).max_requests;
    if (entry.cost > (sets_limit ? given.max_requests : own)) return api::Verdict::never_fits;
    if (!live(name)) {
      if (table_full) return api::Verdict::table_full;
      const limiter::Policy base = rules_(name);
      keys_[name] = {.anchor_ms = now_rounded_up_ms(),
                     .base = base,
                     .limit = base.max_requests,
                     .queue_max = base.max_requests_in_queue,
                     .window_ms = base.window_ms};
    }
    Key& key = keys_.at(name);
    roll(name, key);
    const int64_t length_before_ms = key.window_ms;
    const api::Verdict verdict = judge_live(name, key, entry);
    // No request that gets nothing makes the window last longer.
    if (verdict == api::Verdict::approved && key.window_ms != length_before_ms) {
      key.anchor_ms = now_rounded_up_ms();
      key.windows_passed = 0;
    }
    return verdict;
  }

  api::Verdict judge_live(const std::string& name, Key& key, const api::Entry& entry) {
    const api::Overrides given = entry.overrides();
    const int64_t end_before_ms = end_ms(key);
    if (given.window_ms != api::keep_window) set_window(name, key, given.window_ms);
    if (end_ms(key) > end_before_ms) key.anchor_ms = end_before_ms - key.window_ms;
    if (given.max_requests_in_queue != api::keep) {
      key.queue_max = given.max_requests_in_queue;
    }
    if (given.max_requests != api::keep) {
      key.limit = given.max_requests;
      expel(name, key);
      serve(name, key);
    }
    if (key.waiters.empty() && key.approved + entry.cost <= key.limit) {
      key.approved += entry.cost;
      return api::Verdict::approved;
    }
    if ((entry.flags & api::flag::may_wait) == 0 || key.waiters.size() >= key.queue_max) {
      ++key.denied;
      return api::Verdict::denied;
    }
    const size_t taken = waiting() + grants.size();
    const bool is_full = taken >= options_.waiters_max;
    if (is_full || (entry.flags & api::flag::waiters_full) != 0) return api::Verdict::waiters_full;
    if (key.waiters.size() >= options_.waiters_max - taken) return api::Verdict::key_waiters_full;
    if ((entry.flags & api::flag::connection_waiters_full) != 0) {
      return api::Verdict::connection_waiters_full;
    }
    Waiter waiter{.ticket = entry.ticket, .cost = entry.cost, .deadline_ms = {}};
    if (entry.wait_ms_max > 0) waiter.deadline_ms = now_rounded_up_ms() + entry.wait_ms_max;
    key.waiters.push_back(waiter);
    return api::Verdict::queued;
  }

  // A window of another length begins now, and what was counted stays.
  void set_window(const std::string& name, Key& key, int64_t window_ms) {
    if (window_ms == key.window_ms) return;
    roll(name, key);
    key.window_ms = window_ms;
    key.anchor_ms = now_rounded_up_ms();
    key.windows_passed = 0;
  }

  // Ends the waiters that can never fit.
  void expel(const std::string& name, Key& key) {
    const std::deque<Waiter> before = std::exchange(key.waiters, {});
    for (const Waiter& waiter : before) {
      if (waiter.cost <= key.limit) key.waiters.push_back(waiter);
    }
    for (const Waiter& waiter : before) {
      if (waiter.cost > key.limit) grant(name, key, waiter.ticket, api::Verdict::never_fits);
    }
  }

  void roll(const std::string& name, Key& key) {
    if (end_ms(key) > now_ms()) return;
    while (end_ms(key) <= now_ms()) ++key.windows_passed;
    key.approved = key.denied = 0;
    serve(name, key);
  }

  void serve(const std::string& name, Key& key) {
    while (!key.waiters.empty() && key.approved + key.waiters.front().cost <= key.limit) {
      const Waiter head = key.waiters.front();
      key.waiters.pop_front();
      key.approved += head.cost;
      grant(name, key, head.ticket, api::Verdict::approved);
    }
  }

  api::Detail view(Key key, api::Verdict verdict) const {
    if (end_ms(key) <= now_ms()) key.approved = 0;
    while (end_ms(key) <= now_ms()) ++key.windows_passed;
    const bool later =
        verdict == api::Verdict::denied || verdict == api::Verdict::queued ||
        verdict == api::Verdict::waiters_full || verdict == api::Verdict::connection_waiters_full ||
        verdict == api::Verdict::key_waiters_full || verdict == api::Verdict::wait_limit;
    return {
        .limit = key.limit,
        .remaining = key.approved < key.limit ? static_cast<uint32_t>(key.limit - key.approved) : 0,
        .window_ms = key.window_ms,
        .reset_ms = reset_ms(key),
        .retry_after_ms = later ? reset_ms(key) : 0};
  }

  void grant(const std::string& name, const Key& key, api::Ticket ticket, api::Verdict verdict) {
    grants.push_back({name, ticket, verdict, view(key, verdict)});
  }

  Options options_;
  Rules rules_;
  std::map<std::string, Key> keys_;
};

}  // namespace sluice::shard
