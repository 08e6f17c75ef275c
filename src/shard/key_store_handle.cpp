// Decides keys that are asked for by number: their windows lie in handle slots, which need no
// search.
#include <algorithm>

#include "base/assert.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

// How many handle slots are prefetched ahead of the decision, so that their cache lines have
// arrived.
constexpr size_t handle_slots_ahead = 64;

}  // namespace

void KeyStore::decide(std::span<const api::Handle> handles, std::span<Verdict> verdicts,
                      base::Now now) noexcept {
  ASSERT(verdicts.size() >= handles.size());
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  fire_due(now_ms);
  for (const api::Handle handle : handles.first(std::min(handle_slots_ahead, handles.size()))) {
    handles_.prefetch(handle);
  }
  for (size_t index = 0; index < handles.size(); ++index) {
    handles_.prefetch(handles[std::min(index + handle_slots_ahead, handles.size() - 1)]);
    verdicts[index] = decide_handle_slot(handles[index], now, now_ms);
  }
  sample_traffic(handles, verdicts, now_ms);
}

[[gnu::noinline]] void KeyStore::sample_traffic(std::span<const api::Handle> handles,
                                                std::span<const Verdict> verdicts,
                                                int64_t now_ms) noexcept {
  traffic_.sample(handles.size(), now_ms, [&](size_t at, uint64_t weight) {
    traffic_.add(handles_.hash(handles[at]), handles_.key(handles[at]), verdicts[at], weight,
                 now_ms);
  });
}

inline Verdict KeyStore::decide_handle_slot(api::Handle handle, base::Now now,
                                            int64_t now_ms) noexcept {
  const Verdict verdict = decide_fast(WindowCell(handles_.handle_slot(handle)), 1, false, now_ms);
  if (verdict == Verdict::none) [[unlikely]]
    return decide_indirect(handle, now, now_ms);
  count(verdict);
  return verdict;
}

// The window lies in an extra, or the key has to be looked up, or made.
Verdict KeyStore::decide_indirect(api::Handle handle, base::Now now, int64_t now_ms) noexcept {
  const bool needs_lookup = !is_current(handles_.handle_slot(handle), now_ms);
  const std::string_view key = needs_lookup ? handles_.key(handle) : std::string_view{};
  const api::Entry entry{.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
  const KeyHash hash = handles_.hash(handle);  // cold: not read where it is not needed
  api::Detail no_detail;
  api::WaiterId no_waiter;
  const Question question{.entry = entry,
                          .hash = hash,
                          .detail = no_detail,
                          .waiter = no_waiter,
                          .now = now,
                          .now_ms = now_ms,
                          .origin = 0};
  if (needs_lookup) {
    const Verdict verdict = decide_slow(question);
    move_to_handle_slot(handle);
    return verdict;
  }
  const Verdict verdict = acquire_with_extra(question, handles_.handle_slot(handle).extra());
  count(verdict);
  return verdict;
}

// Whether the window of a live key lies in an extra that follows the rules that hold.
bool KeyStore::is_current(KeyCell handle_slot, int64_t now_ms) const noexcept {
  if (!handle_slot.has_extra()) return false;
  const KeyExtra& extra = extras_[handle_slot.extra()];
  return extra.rules_version == rules_version_ &&
         !(extra.queue.empty() && extra.window.expired(now_ms, extra.policy.window_ms));
}

// Moves the key's window out of its bucket, unless there is no room for the key.
void KeyStore::move_to_handle_slot(api::Handle handle) noexcept {
  const Place place = table_.find(handles_.hash(handle));
  if (!place) return;
  KeyCell own = place.bucket->cell(place.slot);
  if (own.has_handle_slot()) return;
  handles_.handle_slot(handle).copy(own);
  own.set_handle_slot(handle);
}

// Moves the key's window back into its bucket.
void KeyStore::move_to_bucket(api::Handle handle) noexcept {
  KeyCell handle_slot = handles_.handle_slot(handle);
  if (handle_slot.is_vacant()) return;
  const Place place = table_.find(handles_.hash(handle));
  ASSERT(place && place.bucket->cell(place.slot).handle_slot() == handle);
  place.bucket->cell(place.slot).copy(handle_slot);
  handle_slot.set_vacant();
}

void KeyStore::drop_reference(api::Handle handle) noexcept {
  if (handles_.is_last(handle)) move_to_bucket(handle);
  handles_.drop_reference(handle);
}

}  // namespace sluice::shard
