#include "shard_model.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::simulation {
namespace {

using api::Verdict;

constexpr int64_t idle_windows = 3;

int64_t whole_ms(base::Now now) {
  return now.monotonic_ns / 1'000'000;
}
int64_t begun_ms(base::Now now) {
  return (now.monotonic_ns + 999'999) / 1'000'000;
}

}  // namespace

bool ShardModel::has_expired(const Key& key, base::Now now) const {
  return key.queue.empty() && whole_ms(now) >= key.window_end_ms + idle_windows * key.window_ms;
}

// Moves on window by window, as gocc's ticks did, to the one that runs now.
void ShardModel::roll(Key& key, int64_t now_ms) const {
  if (now_ms < key.window_end_ms) return;
  key.approved = 0;
  key.denied = 0;
  while (now_ms >= key.window_end_ms) key.window_end_ms += key.window_ms;
}

void ShardModel::serve(const std::string& name, Key& key, int64_t now_ms) {
  while (!key.queue.empty() && key.approved + key.queue.front().cost <= key.limit) {
    const Waiter head = key.queue.front();
    key.queue.pop_front();
    key.approved += head.cost;
    grant(name, key, head, Verdict::approved, now_ms);
  }
}

void ShardModel::grant(const std::string& name, const Key& key, const Waiter& waiter,
                       Verdict verdict, int64_t now_ms) {
  waiters_.erase(waiter.ticket);
  grants_.push_back({name, waiter.ticket, verdict, detail(key, verdict, now_ms)});
}

api::Detail ShardModel::detail(const Key& key, Verdict verdict, int64_t now_ms) const {
  Key seen = key;
  roll(seen, now_ms);
  const bool next_window_helps =
      verdict == Verdict::denied || verdict == Verdict::queued ||
      verdict == Verdict::waiters_full || verdict == Verdict::connection_waiters_full ||
      verdict == Verdict::key_waiters_full || verdict == Verdict::wait_limit;
  // A first window may last up to a millisecond longer: not shown.
  const int64_t reset_ms = std::min(seen.window_end_ms - now_ms, key.window_ms);
  return {.limit = seen.limit,
          .remaining =
              seen.approved < seen.limit ? static_cast<uint32_t>(seen.limit - seen.approved) : 0,
          .window_ms = key.window_ms,
          .reset_ms = reset_ms,
          .retry_after_ms = next_window_helps ? reset_ms : 0};
}

void ShardModel::run_due(base::Now now) {
  for (auto& [name, key] : keys_) run_due_key(name, key, whole_ms(now));
}

int64_t ShardModel::next_due_ms() const {
  int64_t next_ms = base::never_ms;
  for (const auto& [name, key] : keys_) {
    if (!key.queue.empty()) next_ms = std::min(next_ms, key.window_end_ms);
    for (const Waiter& waiter : key.queue) next_ms = std::min(next_ms, waiter.deadline_ms);
  }
  return next_ms;
}

void ShardModel::run_due_key(const std::string& name, Key& key, int64_t now_ms) {
  while (!key.queue.empty()) {
    const auto next = std::ranges::min_element(key.queue, {}, &Waiter::deadline_ms);
    const int64_t deadline_ms = next->deadline_ms;
    const int64_t due_ms = std::min(deadline_ms, key.window_end_ms);
    if (due_ms > now_ms) return;
    if (key.window_end_ms <= deadline_ms) {
      roll(key, now_ms);
      serve(name, key, now_ms);
      continue;
    }
    const Waiter late = *next;
    key.queue.erase(next);
    grant(name, key, late, Verdict::wait_limit, now_ms);
    // The waiters behind it may fit now, unless this window is over as well.
    if (now_ms < key.window_end_ms) serve(name, key, now_ms);
  }
}

const ShardModel::Key* ShardModel::find(const std::string& name, base::Now now) {
  const auto found = keys_.find(name);
  if (found == keys_.end()) return nullptr;
  if (has_expired(found->second, now)) {
    keys_.erase(found);
    return nullptr;
  }
  return &found->second;
}

bool ShardModel::may_be_evicted(const Key& key, base::Now now) const {
  if (has_expired(key, now)) return true;
  const bool own_policy = key.limit != key.base.max_requests ||
                          key.queue_max != key.base.max_requests_in_queue ||
                          key.window_ms != key.base.window_ms;
  return key.queue.empty() && !own_policy && whole_ms(now) >= key.window_end_ms;
}

api::KeyState ShardModel::state(const Key& key, base::Now now) const {
  Key seen = key;
  roll(seen, whole_ms(now));
  return {.window_ms = key.window_ms,
          .reset_ms = std::min(seen.window_end_ms - whole_ms(now), key.window_ms),
          .max_requests = seen.limit,
          .max_requests_in_queue = seen.queue_max,
          .approved = static_cast<uint32_t>(seen.approved),
          .denied = static_cast<uint32_t>(seen.denied),
          .waiting = static_cast<uint32_t>(seen.queue.size())};
}

ShardModel::Answer ShardModel::decide(const api::Entry& entry, base::Now now, bool table_full) {
  run_due(now);
  if (entry.op == api::Op::acquire) return acquire(entry, now, table_full);
  if (entry.op == api::Op::look) return look(entry, now);
  release(entry, now);
  return {.verdict = Verdict::approved, .detail = {}};
}

ShardModel::Answer ShardModel::look(const api::Entry& entry, base::Now now) {
  const std::string name(entry.key());
  if (name.empty() || name.size() > options_.key_bytes_max) {
    return refuse(Verdict::invalid_key, name, now);
  }
  Answer answer = refuse(Verdict::approved, name, now);
  if (answer.detail.remaining == 0) answer.detail.retry_after_ms = answer.detail.reset_ms;
  return answer;
}

void ShardModel::release(const api::Entry& entry, base::Now now) {
  const std::string name(entry.key());
  if (find(name, now) == nullptr) return;
  Key& key = keys_.at(name);
  roll(key, whole_ms(now));
  key.approved -= std::min<uint64_t>(key.approved, entry.cost);
  serve(name, key, whole_ms(now));
}

// Changes nothing; the details are those of the key, or those of a new key.
ShardModel::Answer ShardModel::refuse(Verdict verdict, const std::string& name, base::Now now) {
  const Key* key = find(name, now);
  if (key != nullptr) return {verdict, detail(*key, verdict, whole_ms(now))};
  const limiter::Policy fresh = verdict == Verdict::invalid_key ? options_.policy : rules_(name);
  return {
      verdict,
      {.limit = fresh.max_requests, .remaining = fresh.max_requests, .window_ms = fresh.window_ms}};
}

ShardModel::Answer ShardModel::acquire(const api::Entry& entry, base::Now now, bool table_full) {
  const std::string name(entry.key());
  const int64_t now_ms = whole_ms(now);
  const api::Overrides given = entry.overrides();
  const bool sets_limit = given.max_requests != api::keep;
  if (name.empty() || name.size() > options_.key_bytes_max) {
    return refuse(Verdict::invalid_key, name, now);
  }
  if ((sets_limit && !options_.requests_can_set_rate) ||
      (given.max_requests_in_queue != api::keep && !options_.requests_can_mod_queue) ||
      (given.window_ms != api::keep_window && !options_.requests_can_set_window)) {
    return refuse(Verdict::not_allowed, name, now);
  }
  const Key* live = find(name, now);
  const limiter::Policy fresh = rules_(name);
  const uint32_t has = live != nullptr ? live->limit : fresh.max_requests;
  const uint32_t limit = sets_limit ? given.max_requests : has;
  if (entry.cost > limit) return refuse(Verdict::never_fits, name, now);
  if (live == nullptr) {
    if (table_full) return refuse(Verdict::table_full, name, now);
    keys_[name] = {.base = fresh,
                   .limit = fresh.max_requests,
                   .queue_max = fresh.max_requests_in_queue,
                   .window_ms = fresh.window_ms,
                   .window_end_ms = begun_ms(now) + fresh.window_ms,
                   .queue = {}};
  }
  Key& key = keys_.at(name);
  roll(key, now_ms);
  const int64_t length_before_ms = key.window_ms;
  change_policy(entry, name, key, now);

  Verdict verdict = Verdict::denied;
  if (key.queue.empty() && key.approved + entry.cost <= key.limit) {
    key.approved += entry.cost;
    verdict = Verdict::approved;
  } else if ((entry.flags & api::flag::may_wait) != 0 && key.queue.size() < key.queue_max) {
    const size_t taken = waiters_.size() + grants_.size();
    const bool full = taken >= options_.waiters_max || (entry.flags & api::flag::waiters_full) != 0;
    const bool connection_full = (entry.flags & api::flag::connection_waiters_full) != 0;
    const bool key_full = !full && key.queue.size() >= options_.waiters_max - taken;
    const bool too_late = (entry.flags & api::flag::draining) != 0;
    verdict = full              ? Verdict::waiters_full
              : key_full        ? Verdict::key_waiters_full
              : connection_full ? Verdict::connection_waiters_full
              : too_late        ? Verdict::draining
                                : Verdict::queued;
  }
  if (verdict == Verdict::denied) ++key.denied;
  if (verdict == Verdict::queued) {
    ASSERT(!waiters_.contains(entry.ticket));
    waiters_[entry.ticket] = name;
    const int64_t deadline_ms =
        entry.wait_ms_max == 0 ? INT64_MAX : begun_ms(now) + entry.wait_ms_max;
    key.queue.push_back({entry.ticket, entry.cost, deadline_ms});
  }
  const auto position = static_cast<uint32_t>(verdict == Verdict::queued ? key.queue.size() : 0);
  // No request that gets nothing makes the window last longer.
  if (verdict == Verdict::approved && key.window_ms != length_before_ms) {
    key.window_end_ms = begun_ms(now) + key.window_ms;
  }
  api::Detail shown = detail(key, verdict, now_ms);
  shown.position = position;
  return {verdict, shown};
}

void ShardModel::change_policy(const api::Entry& entry, const std::string& name, Key& key,
                               base::Now now) {
  const api::Overrides given = entry.overrides();
  const int64_t end_before_ms = key.window_end_ms;
  if (given.window_ms != api::keep_window) set_window(key, given.window_ms, now);
  key.window_end_ms = std::min(key.window_end_ms, end_before_ms);
  if (given.max_requests_in_queue != api::keep) key.queue_max = given.max_requests_in_queue;
  if (given.max_requests != api::keep) limit(given.max_requests, name, key, whole_ms(now));
}

// A window of another length begins now; its counters go on.
void ShardModel::set_window(Key& key, int64_t window_ms, base::Now now) const {
  if (window_ms == key.window_ms) return;
  roll(key, whole_ms(now));
  key.window_ms = window_ms;
  key.window_end_ms = begun_ms(now) + window_ms;
}

// Denies waiters that can never be served any more, and serves those that fit now.
void ShardModel::limit(uint32_t permits, const std::string& name, Key& key, int64_t now_ms) {
  key.limit = permits;
  std::deque<Waiter> queue;
  queue.swap(key.queue);
  for (const Waiter& waiter : queue) {
    if (waiter.cost <= key.limit) {
      key.queue.push_back(waiter);
    } else {
      grant(name, key, waiter, Verdict::never_fits, now_ms);
    }
  }
  serve(name, key, now_ms);
}

std::optional<ShardModel::Waiter> ShardModel::take_out(api::Ticket ticket, std::string& name) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return {};
  name = found->second;
  std::deque<Waiter>& queue = keys_.at(name).queue;
  const auto place = std::ranges::find(queue, ticket, &Waiter::ticket);
  const Waiter waiter = *place;
  queue.erase(place);
  waiters_.erase(found);
  return waiter;
}

bool ShardModel::withdraw(api::Ticket ticket, base::Now now) {
  run_due(now);
  std::string name;
  const auto waiter = take_out(ticket, name);
  if (!waiter) return false;
  Key& key = keys_.at(name);
  grant(name, key, *waiter, Verdict::withdrawn, whole_ms(now));
  serve(name, key, whole_ms(now));
  return true;
}

bool ShardModel::abandon(api::Ticket ticket, base::Now now) {
  run_due(now);
  std::string name;
  if (!take_out(ticket, name)) return false;
  serve(name, keys_.at(name), whole_ms(now));
  return true;
}

bool ShardModel::refund(const std::string& name, uint32_t cost, int64_t window_end_ms,
                        base::Now now) {
  run_due(now);
  if (find(name, now) == nullptr) return false;
  Key& key = keys_.at(name);
  Key seen = key;
  roll(seen, whole_ms(now));
  if (seen.window_end_ms != window_end_ms) return false;  // nothing has happened
  roll(key, whole_ms(now));
  key.approved -= std::min<uint64_t>(key.approved, cost);
  serve(name, key, whole_ms(now));
  return true;
}

void ShardModel::drain(base::Now now) {
  run_due(now);
  for (auto& [name, key] : keys_) {
    while (!key.queue.empty()) {
      const Waiter head = key.queue.front();
      key.queue.pop_front();
      grant(name, key, head, Verdict::draining, whole_ms(now));
    }
  }
}

void ShardModel::adopt(Rules rules, base::Now now) {
  run_due(now);
  rules_ = std::move(rules);
  std::erase_if(keys_, [&](const auto& named) { return has_expired(named.second, now); });
  for (auto& [name, key] : keys_) {
    const limiter::Policy fresh = rules_(name);
    if (fresh == key.base) continue;  // overrides by requests stay
    set_window(key, fresh.window_ms, now);
    key.base = fresh;
    key.queue_max = fresh.max_requests_in_queue;
    limit(fresh.max_requests, name, key, whole_ms(now));
  }
}

}  // namespace sluice::simulation
