#include "shard/key_store.hpp"

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::shard {

KeyStore::KeyStore(const Options& options)
    : options_(options),
      rules_(std::make_unique<policy::RuleBook>(options.policy)),
      match_share_(options.matches_min),
      table_(options.keys_max, options.key_bytes_max),
      handles_(options.handles_max, options.key_bytes_max),
      waiters_(options.waiters_max, "waiters (--max-waiters)"),
      extras_(options.keys_max, "keys with overrides or waiters (--max-keys)"),
      timers_(0),
      traffic_(options.hash_secret) {
  const limiter::Policy& policy = options.policy;
  ASSERT(policy.max_requests >= 1 && policy.max_requests <= limits::permits_max);
  ASSERT(policy.window_ms >= 1 && policy.window_ms <= limits::window_ms_max);
  grants_.reserve(options.waiters_max);
  page_.reserve(limits::inspect_page_max);
  waiting_costs_.reserve(limits::shown_waiters_max);
}

Place KeyStore::find_live(const KeyHash& hash, int64_t now_ms) noexcept {
  const Place place = table_.find(hash);
  if (!place) return {};
  refresh(place, now_ms);
  return expired(place, now_ms) ? Place{} : place;
}

Place KeyStore::make_key(const Question& question, const limiter::Policy& policy) noexcept {
  // An expired key that still has its slot begins anew there.
  Place place = table_.find(question.hash);
  if (place) {
    ASSERT(expired(place, question.now_ms));
    report_expired(place);
    leave(cell(place));
  } else {
    if (table_.full() && !make_room(question.now_ms)) return {};
    place = table_.insert(question.hash, question.entry.key());
    if (!place) return {};
  }
  put(place, Window::starting_at(question.now.monotonic_ns, policy.window_ms), policy,
      question.hash);
  return place;
}

const limiter::Policy& KeyStore::policy_of(Place place) const noexcept {
  const WindowCell own = cell(place);
  return own.has_extra() ? extras_[own.extra()].policy : classes_[own.policy()].policy;
}

Window KeyStore::window_of(Place place) const noexcept {
  const WindowCell own = cell(place);
  return own.has_extra() ? extras_[own.extra()].window : own.window();
}

// The key's window ends, or begins anew: frees its extra, or its place in a policy class.
void KeyStore::leave(KeyCell own) noexcept {
  if (own.has_extra()) {
    ASSERT(extras_[own.extra()].queue.empty());
    extras_.free(own.extra());
  } else {
    classes_.leave(own.policy());
  }
}

// The place has neither an extra nor a class.
void KeyStore::put(Place place, const Window& window, const limiter::Policy& policy,
                   const KeyHash& hash) noexcept {
  const PolicyClasses::Index own = classes_.find_or_add(policy);
  if (own == PolicyClasses::none) {
    take_extra(place, window, policy, hash);
    return;
  }
  classes_.enter(own);
  cell(place).set_window(window, own);
}

KeyStore::ExtraIndex KeyStore::add_extra(Place place, const Window& window,
                                         const KeyHash& hash) noexcept {
  const PolicyClasses::Index own = cell(place).policy();
  const ExtraIndex index = take_extra(place, window, classes_[own].policy, hash);
  classes_.leave(own);
  return index;
}

KeyStore::ExtraIndex KeyStore::take_extra(Place place, const Window& window,
                                          const limiter::Policy& policy,
                                          const KeyHash& hash) noexcept {
  const ExtraIndex index = extras_.take(window, policy, rules_version_, hash);
  ASSERT(index != base::ObjectPool<KeyExtra>::none);  // there is one for every key
  extras_[index].window_end.owner = index;
  note_extra(policy);
  cell(place).set_extra(index);
  return index;
}

void KeyStore::drop_extra(Place place, const Window& window) noexcept {
  const ExtraIndex index = cell(place).extra();
  ASSERT(extras_[index].rules_version == rules_version_);
  const PolicyClasses::Index own = classes_.find_or_add(extras_[index].rules_policy);
  if (own == PolicyClasses::none) return;
  classes_.enter(own);
  cell(place).set_window(window, own);
  extras_.free(index);
}

uint64_t KeyStore::reserved_bytes() const noexcept {
  return table_.reserved_bytes() + handles_.reserved_bytes() + extras_.reserved_bytes() +
         waiters_.reserved_bytes() + grants_.capacity() * sizeof(api::Grant) +
         page_.capacity() * sizeof(api::KeyState) + waiting_costs_.capacity() * sizeof(uint32_t) +
         traffic_.reserved_bytes();
}

}  // namespace sluice::shard
