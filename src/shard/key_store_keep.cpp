// Windows that survive a restart: writes those that last long enough, and restores them.
#include <algorithm>

#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {

// An extra may have waiters, and so no class; whether some lasts long is known from their making.
bool KeyStore::may_have_kept_windows() const noexcept {
  return may_have_kept_extras_ || classes_.has_window_of(options_.kept_window_ms);
}

bool KeyStore::is_kept(Place place, int64_t now_ms) const noexcept {
  return policy_of(place).window_ms >= options_.kept_window_ms && !expired(place, now_ms);
}

// A key that still follows earlier rules is written with those.
void KeyStore::write_window(Place place, state::WindowSink& sink) const noexcept {
  const WindowCell own = cell(place);
  const Window window = window_of(place);
  const limiter::Policy& policy = policy_of(place);
  sink.append({.key = table_.text(place),
               .end_ms = window.end_ms,
               .approved = window.approved,
               .denied = window.denied,
               .policy = policy,
               .rules_policy = own.has_extra() ? extras_[own.extra()].rules_policy : policy});
}

// As page() walks.
uint64_t KeyStore::write_windows(const WindowsToWrite& which, state::WindowSink& sink,
                                 base::Now now) noexcept {
  if (which.cursor == 0) may_have_kept_extras_ = false;
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  const BucketArray& array = table_.current();
  const uint32_t home = array.home(static_cast<uint32_t>(which.cursor));
  const uint32_t last_home = std::min(array.buckets_count() - 1, home + which.buckets_max - 1);
  const uint64_t end = std::min(which.end, array.first_position(last_home + 1));
  const auto write = [&](Place place) {
    if (is_kept(place, now_ms)) {
      if (cell(place).has_extra()) may_have_kept_extras_ = true;
      write_window(place, sink);
    }
    return true;
  };
  visit_keys(array, which.cursor, end, write);
  if (table_.growing()) visit_keys(table_.previous(), which.cursor, end, write);
  return end;
}

Restoring KeyStore::restore(const state::WindowRecord& from, base::Now now) noexcept {
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  Window window = Window::restored(from.end_ms, from.approved, from.denied);
  if (window.expired(now_ms, from.policy.window_ms)) return Restoring::is_over;
  if (from.key.size() > options_.key_bytes_max) return Restoring::has_no_room;
  const KeyHash hash = hash_key(from.key, options_.hash_secret);
  if (table_.find(hash)) return Restoring::is_there;
  if (table_.full()) return Restoring::has_no_room;
  const Place place = table_.insert(hash, from.key);
  if (!place) return Restoring::has_no_room;
  const limiter::Policy rules_policy = rules_->policy_of(from.key);
  const bool same_rules = rules_policy == from.rules_policy;
  const limiter::Policy& policy = same_rules ? from.policy : rules_policy;
  anchor(window, from.policy.window_ms, policy.window_ms, now);
  if (policy == rules_policy && window.denied <= WindowCell::denied_max) {
    put(place, window, policy, hash);
  } else {
    extras_[take_extra(place, window, rules_policy, hash)].policy = policy;
    note_extra(policy);
  }
  return Restoring::is_there;
}

}  // namespace sluice::shard
