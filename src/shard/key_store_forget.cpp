// Forgets keys: expired ones in a slow sweep, and keys that may be evicted when the table is full.
#include <algorithm>

#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

constexpr int64_t sweep_lap_ms = 4'000;        // the whole table once
constexpr uint32_t sweep_buckets_max = 4'096;  // in one call
// Keys that it matches against new rules in one call: fewer when requests have had their share.
constexpr uint32_t sweep_matches_min = 16;
constexpr uint32_t sweep_matches_max = 64;
constexpr uint32_t eviction_buckets_max = 1'024;

}  // namespace

bool KeyStore::expired(Place place, int64_t now_ms) const noexcept {
  const WindowCell own = cell(place);
  if (!own.has_extra()) {
    return own.window().expired(now_ms, classes_[own.policy()].policy.window_ms);
  }
  const KeyExtra& extra = extras_[own.extra()];
  return extra.queue.empty() && extra.window.expired(now_ms, extra.policy.window_ms);
}

void KeyStore::report_expired(Place place) noexcept {
  ++statistics_.keys_expired;
  if (options_.expiry_listener == nullptr) return;
  options_.expiry_listener->on_expired(table_.text(place));
}

void KeyStore::forget(Place place) noexcept {
  WindowCell own = cell(place);
  leave(own);
  if (place.bucket->cell(place.slot).has_handle_slot()) own.set_vacant();
  table_.erase(place);
  restart_eviction_search();
}

// Sweeps as many buckets as are due since the last call, within bounds.
void KeyStore::sweep(int64_t now_ms) noexcept {
  const BucketArray& array = table_.current();
  const int64_t since_ms = std::max(swept_ms_, now_ms - sweep_lap_ms);
  const int64_t wanted = (now_ms - since_ms) * array.buckets_count() / sweep_lap_ms;
  sweep_behind_ = false;
  if (wanted == 0) return;
  swept_ms_ = since_ms + wanted * sweep_lap_ms / array.buckets_count();
  const int64_t count = std::min<int64_t>(wanted, sweep_buckets_max);
  const uint32_t matches = std::clamp(match_share_.left(), sweep_matches_min, sweep_matches_max);
  int64_t done = 0;
  for (uint32_t refreshed = 0; done < count && refreshed < matches; ++done) {
    if (swept_bucket_ >= array.buckets_count()) swept_bucket_ = 0;
    if (swept_bucket_ + buckets_ahead < array.buckets_count()) {
      prefetch_handle_slots(array.bucket(swept_bucket_ + buckets_ahead));
    }
    Bucket& bucket = array.bucket(swept_bucket_++);
    for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
      if (bucket.tags[slot] == 0) continue;
      const Place place{&bucket, slot};
      if (is_stale(place)) {
        refresh(place, now_ms);
        ++refreshed;
      }
      if (!expired(place, now_ms)) continue;
      report_expired(place);
      forget(place);
    }
  }
  // Buckets that one call may not sweep are left for the next calls, not for the next lap.
  sweep_behind_ = done < wanted;
  if (sweep_behind_) swept_ms_ -= (wanted - done) * sweep_lap_ms / array.buckets_count();
}

// When a full table may evict this key: past its window if a fresh start would show nothing of it,
// else when it expires; never while it has waiters. Waiters may leave, so it may be checked again
// soon.
int64_t KeyStore::evictable_ms(Place place, int64_t now_ms) const noexcept {
  const WindowCell own = cell(place);
  if (!own.has_extra()) return own.window().fresh_ms();
  const KeyExtra& extra = extras_[own.extra()];
  if (!extra.queue.empty()) return std::max(extra.window.fresh_ms(), now_ms + 1);
  if (extra.policy == extra.rules_policy) return extra.window.fresh_ms();
  return extra.window.expiry_ms(extra.policy.window_ms);
}

// Makes room for one key: an expired one goes first, then one past its window.
bool KeyStore::make_room(int64_t now_ms) noexcept {
  if (now_ms < eviction_not_before_ms_) return false;
  ASSERT(!table_.growing());
  const BucketArray& array = table_.current();
  const uint32_t count = std::min(eviction_buckets_max, array.buckets_count());
  Place second_choice;
  for (uint32_t left = count; left > 0; --left) {
    if (eviction_bucket_ >= array.buckets_count()) eviction_bucket_ = 0;
    if (searched_buckets_++ == 0) first_evictable_ms_ = base::never_ms;
    if (eviction_bucket_ + buckets_ahead < array.buckets_count()) {
      prefetch_handle_slots(array.bucket(eviction_bucket_ + buckets_ahead));
    }
    Bucket& bucket = array.bucket(eviction_bucket_++);
    for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
      if (bucket.tags[slot] == 0) continue;
      const Place place{&bucket, slot};
      refresh(place, now_ms);
      if (expired(place, now_ms)) {
        report_expired(place);
        forget(place);
        return true;
      }
      const int64_t from_ms = evictable_ms(place, now_ms);
      if (from_ms <= now_ms && !second_choice) second_choice = place;
      first_evictable_ms_ = std::min(first_evictable_ms_, from_ms);
    }
  }
  if (second_choice) {
    forget(second_choice);
    ++statistics_.keys_evicted;
    return true;
  }
  if (searched_buckets_ >= array.buckets_count()) {
    eviction_not_before_ms_ = first_evictable_ms_;
    searched_buckets_ = 0;
  }
  return false;
}

// Some key may be evicted earlier than the search has seen: it has to search again. A use or a
// waiter only ever delays an eviction, and so does an override, unless it shortens the window.
void KeyStore::restart_eviction_search() noexcept {
  searched_buckets_ = 0;
  eviction_not_before_ms_ = 0;
}

}  // namespace sluice::shard
