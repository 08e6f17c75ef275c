// Views of keys, which change nothing, and the check of all invariants for tests.
#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "shard/key_store.hpp"

namespace sluice::shard {
namespace {

constexpr uint32_t page_buckets_max = 16'384;

}  // namespace

api::KeyState KeyStore::state(Place place, int64_t now_ms) const noexcept {
  api::KeyState state{.key = table_.text(place)};
  const limiter::Policy& policy = policy_of(place);
  Window window = window_of(place);
  const WindowCell own = cell(place);
  if (own.has_extra()) state.waiting = extras_[own.extra()].queue.size();
  window.roll(now_ms, policy.window_ms);
  state.window_ms = policy.window_ms;
  state.reset_ms = window.reset_ms(now_ms, policy.window_ms);
  state.max_requests = policy.max_requests;
  state.max_requests_in_queue = policy.max_requests_in_queue;
  state.approved = window.approved;
  state.denied = window.denied;
  return state;
}

std::optional<api::KeyState> KeyStore::inspect(std::string_view key, base::Now now) noexcept {
  if (key.empty() || key.size() > options_.key_bytes_max) return std::nullopt;
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  const Place place = find_live(hash_key(key, options_.hash_secret), now_ms);
  if (!place) return std::nullopt;
  api::KeyState shown = state(place, now_ms);
  shown.waiting_costs = first_waiting_costs(place);
  return shown;
}

std::span<const uint32_t> KeyStore::first_waiting_costs(Place place) noexcept {
  const WindowCell own = cell(place);
  if (!own.has_extra()) return {};
  waiting_costs_.clear();
  extras_[own.extra()].queue.for_each_until([&](const Waiter& waiter) {
    waiting_costs_.push_back(waiter.cost);
    return waiting_costs_.size() < waiting_costs_.capacity();
  });
  return waiting_costs_;
}

// Walks the positions of one bucket of the current array after the other. Keys that have not moved
// there yet are searched by the same positions in the previous one.
Page KeyStore::page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept {
  constexpr uint64_t positions_end = uint64_t{1} << 32;
  const int64_t now_ms = base::floor_ms(now.monotonic_ns);
  const uint32_t wanted = std::clamp(keys_max, 1U, limits::inspect_page_max);
  const BucketArray& array = table_.current();
  page_.clear();
  uint64_t next = cursor;
  for (uint32_t visited = 0; visited < page_buckets_max && page_.size() < wanted; ++visited) {
    if (next >= positions_end) return {.keys = page_, .next_cursor = 0};
    uint64_t end = array.first_position(array.home(static_cast<uint32_t>(next)) + 1);
    const size_t before = page_.size();
    while (!add_to_page(next, end, wanted, now_ms)) {
      page_.resize(before);
      // The page is full in the middle of a bucket: the bucket opens the next page ...
      if (before > 0) return {.keys = page_, .next_cursor = next};
      // ... unless it alone has more keys than a page: then it is listed in parts.
      ASSERT(end - next > 1);
      end = next + (end - next) / 2;
    }
    next = end;
  }
  return {.keys = page_, .next_cursor = next < positions_end ? next : 0};
}

bool KeyStore::add_to_page(uint64_t first, uint64_t end, uint32_t wanted, int64_t now_ms) noexcept {
  // Keys of one position are never split: a page of one may then have two.
  const uint32_t room = end - first > 1 ? wanted : limits::inspect_page_max;
  return add_to_page(table_.current(), first, end, room, now_ms) &&
         (!table_.growing() || add_to_page(table_.previous(), first, end, room, now_ms));
}

// The live keys with positions in [first, end). False when the page has no room for them all.
bool KeyStore::add_to_page(const BucketArray& array, uint64_t first, uint64_t end, uint32_t room,
                           int64_t now_ms) noexcept {
  return visit_keys(array, first, end, [&](Place place) {
    refresh(place, now_ms);
    if (expired(place, now_ms)) return true;
    if (page_.size() >= room) return false;
    page_.push_back(state(place, now_ms));
    return true;
  });
}

std::span<const HeavyKey> KeyStore::heaviest_keys(uint32_t keys_max, base::Now now) noexcept {
  const std::span keys = traffic_.heaviest(keys_max, base::floor_ms(now.monotonic_ns));
  for (HeavyKey& key : keys) {
    if (key.key.size() < key.key_bytes) {
      key.waiting = std::nullopt;
    } else if (const auto state = inspect(key.key, now)) {
      key.waiting = state->waiting;
    }
  }
  return keys;
}

void KeyStore::check_invariants(base::Now now) const noexcept {
  table_.check_invariants();
  check_keys();
  check_queues(base::floor_ms(now.monotonic_ns));
  traffic_.check_invariants();
}

// Every key is found by its text, and every extra belongs to exactly one key.
void KeyStore::check_keys() const noexcept {
  uint32_t extras_count = 0;
  uint32_t handle_slots_count = 0;
  std::array<uint32_t, PolicyClasses::count> class_keys{};
  for (const BucketArray* array : {&table_.current(), &table_.previous()}) {
    for (uint32_t index = 0; index < array->buckets_count(); ++index) {
      Bucket& bucket = array->bucket(index);
      for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
        if (bucket.tags[slot] == 0) continue;
        const Place place{&bucket, slot};
        const KeyHash hash = hash_key(table_.text(place), options_.hash_secret);
        ASSERT(hash == table_.hash(place));
        ASSERT(table_.find(hash) == place);
        if (bucket.cell(slot).has_handle_slot()) {
          ++handle_slots_count;
          ASSERT(handles_.hash(bucket.cell(slot).handle_slot()) == hash);
        }
        const WindowCell own = cell(place);
        ASSERT(!own.has_handle_slot());
        if (!own.has_extra()) {
          ++class_keys[own.policy()];
          continue;
        }
        ++extras_count;
        ASSERT(extras_.holds(own.extra()));
        ASSERT(extras_[own.extra()].hash == hash);
      }
    }
  }
  ASSERT(extras_count == extras_.used());
  check_handle_slots(handle_slots_count);
  for (uint32_t index = 0; index < PolicyClasses::count; ++index) {
    ASSERT(classes_[index].keys == class_keys[index]);
  }
}

// As many handle slots are taken as cells refer to.
void KeyStore::check_handle_slots(uint32_t handle_slots_count) const noexcept {
  handles_.check_invariants();
  uint32_t taken = 0;
  for (api::Handle handle = 0; handle < handles_.index_end(); ++handle) {
    if (handles_.holds(handle) && !handles_.handle_slot(handle).is_vacant()) ++taken;
  }
  ASSERT(taken == handle_slots_count);
}

// No waiter is left that could be served, or can never be; every queue has its timer.
void KeyStore::check_queues(int64_t now_ms) const noexcept {
  uint32_t waiters_count = 0;
  for (ExtraIndex index = 0; index < extras_.index_end(); ++index) {
    if (!extras_.holds(index)) continue;
    const KeyExtra& extra = extras_[index];
    ASSERT(extra.window_end.scheduled() == !extra.queue.empty());
    ASSERT(!extra.queue.empty() || extra.policy != extra.rules_policy ||
           extra.rules_version != rules_version_ || extra.window.denied > WindowCell::denied_max ||
           classes_.was_full());
    bool head = true;
    extra.queue.for_each([&](const Waiter& waiter) {
      ++waiters_count;
      ASSERT(waiter.extra == index && waiters_.holds(waiter.id));
      ASSERT(&waiters_[waiter.id] == &waiter);
      ASSERT(waiter.cost <= extra.policy.max_requests);
      ASSERT(!head || extra.window.over(now_ms) ||
             !extra.window.fits(waiter.cost, extra.policy.max_requests));
      head = false;
    });
    if (!extra.queue.empty()) ASSERT(extra.window_end.due_ms() == extra.window.end_ms);
  }
  ASSERT(waiters_count == waiters_.used());
  ASSERT(waiters_.used() + grants_.size() <= waiters_.capacity());
}

}  // namespace sluice::shard
