// New rules: keys are matched again when they are next used (KeyDecider::adopt).
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

constexpr uint32_t refreshes_per_call = 512;

}  // namespace

std::unique_ptr<policy::RuleBook> KeyStore::adopt(std::unique_ptr<policy::RuleBook> rules,
                                                  base::Now now) noexcept {
  fire_due(base::floor_ms(now.monotonic_ns));
  std::swap(rules_, rules);
  ++rules_version_;
  adopted_at_[rules_version_ % adopted_at_.size()] = now;
  refresh_from_ = 0;
  classes_.make_stale(now);
  restart_eviction_search();
  return rules;
}

bool KeyStore::is_stale(Place place) const noexcept {
  const WindowCell own = cell(place);
  return own.has_extra() ? extras_[own.extra()].rules_version != rules_version_
                         : classes_[own.policy()].stale;
}

// When the rules after those of this rules_version were adopted; of very many, the oldest that is
// known.
base::Now KeyStore::stale_since(uint32_t rules_version) const noexcept {
  ASSERT(rules_version != rules_version_);
  const auto known = static_cast<uint32_t>(adopted_at_.size());
  const uint32_t next =
      std::max(rules_version + 1, rules_version_ < known ? 1 : rules_version_ - known + 1);
  return adopted_at_[next % known];
}

// Has the effect that it would have had when the rules were adopted. A key that had expired by then
// stays as it is.
void KeyStore::refresh(Place place, int64_t now_ms) noexcept {
  if (!is_stale(place)) return;
  const WindowCell own = cell(place);
  if (own.has_extra()) return refresh(own.extra(), now_ms);
  const PolicyClasses::Index old = own.policy();
  const int64_t window_ms = classes_[old].policy.window_ms;
  const base::Now since = classes_[old].stale_since;
  Window window = own.window();
  if (window.expired(base::floor_ms(since.monotonic_ns), window_ms)) return;
  match_share_.spend();
  const limiter::Policy policy = rules_->policy_of(table_.text(place));
  anchor(window, window_ms, policy.window_ms, since);
  classes_.leave(old);
  put(place, window, policy, table_.hash(place));
}

void KeyStore::refresh(ExtraIndex index, int64_t now_ms) noexcept {
  KeyExtra& extra = extras_[index];
  if (extra.rules_version == rules_version_) return;
  const base::Now since = stale_since(extra.rules_version);
  const int64_t since_ms = base::floor_ms(since.monotonic_ns);
  if (extra.queue.empty() && extra.window.expired(since_ms, extra.policy.window_ms)) return;
  extra.rules_version = rules_version_;
  match_share_.spend();
  const limiter::Policy rules_policy = rules_->policy_of(table_.text(table_.find(extra.hash)));
  if (rules_policy == extra.rules_policy) return schedule_or_free_extra(index);
  const bool has_queue = !extra.queue.empty();
  if (has_queue) roll_and_serve(extra, since_ms);
  anchor(extra.window, extra.policy.window_ms, rules_policy.window_ms, since);
  extra.rules_policy = rules_policy;
  extra.policy = rules_policy;
  note_extra(rules_policy);
  extra.queue.expel_above(rules_policy.max_requests, [&](Waiter& waiter) {
    grant(waiter, extra, api::Verdict::never_fits, now_ms);
  });
  // Without a queue no window rolls before the next request: the key may have expired since.
  if (has_queue) {
    roll_and_serve(extra, now_ms);
    serve(extra, now_ms);
  }
  schedule_or_free_extra(index);
}

void KeyStore::refresh_waiting(int64_t now_ms) noexcept {
  uint32_t refreshed = 0;
  for (; refresh_from_ < waiters_.index_end(); ++refresh_from_) {
    if (!waiters_.holds(refresh_from_)) continue;
    if (refreshed++ == refreshes_per_call) return;
    refresh(waiters_[refresh_from_].extra, now_ms);
  }
  refresh_from_ = api::no_waiter;
}

// A window of another length begins when the policy changed; its counters go on.
void KeyStore::anchor(Window& window, int64_t from_ms, int64_t to_ms, base::Now since) noexcept {
  if (from_ms == to_ms) return;
  window.roll(base::floor_ms(since.monotonic_ns), from_ms);
  window.restart(since.monotonic_ns, to_ms);
}

}  // namespace sluice::shard
