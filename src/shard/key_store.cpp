#include "shard/key_store.hpp"

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::shard {

KeyStore::KeyStore(const Options& options)
    : options_(options),
      policy_(options.policy),
      table_(options.keys_max, options.key_bytes_max),
      waiters_(options.waiters_max, "waiters (--max-waiters)"),
      extras_(options.keys_max, "keys with overrides or waiters (--max-keys)"),
      timers_(0) {
  ASSERT(policy_.max_requests >= 1 && policy_.max_requests <= limits::permits_max);
  ASSERT(policy_.window_ms >= 1 && policy_.window_ms <= limits::window_ms_max);
  grants_.reserve(options.waiters_max);
  page_.reserve(limits::inspect_page_max);
}

Place KeyStore::find_live(const KeyHash& hash, int64_t now_ms) noexcept {
  const Place place = table_.find(hash);
  if (!place || !expired(*place.bucket, place.slot, now_ms)) return place;
  return {};
}

Place KeyStore::make_key(const Question& question) noexcept {
  // An expired key that still has its slot begins anew there.
  Place place = table_.find(question.hash);
  if (place) {
    ASSERT(expired(*place.bucket, place.slot, question.now_ms));
    if (place.bucket->has_extra(place.slot)) extras_.give_back(place.bucket->extra(place.slot));
    ++statistics_.keys_expired;
  } else {
    if (table_.full() && !reclaim(question.now_ms)) return {};
    place = table_.insert(question.hash, question.entry.key());
    if (!place) return {};
  }
  place.bucket->set_window(place.slot,
                           Window::starting_at(question.now.monotonic_ns, policy_.window_ms));
  return place;
}

KeyStore::ExtraIndex KeyStore::give_extra(Place place, const Window& window,
                                          const KeyHash& hash) noexcept {
  const ExtraIndex index = extras_.take(window, policy_, hash);
  ASSERT(index != base::ObjectPool<KeyExtra>::none);  // there is one for every key
  extras_[index].window_end.owner = index;
  place.bucket->set_extra(place.slot, index);
  return index;
}

void KeyStore::drop_extra(Place place, const Window& window) noexcept {
  const ExtraIndex index = place.bucket->extra(place.slot);
  place.bucket->set_window(place.slot, window);
  extras_.give_back(index);
}

uint64_t KeyStore::reserved_bytes() const noexcept {
  return table_.reserved_bytes() + extras_.reserved_bytes() + waiters_.reserved_bytes() +
         grants_.capacity() * sizeof(api::Grant) + page_.capacity() * sizeof(api::KeyState);
}

}  // namespace sluice::shard
