// What a key's limit has to be able to do: the arithmetic that the key store (src/shard) is written
// against. FixedWindow is the one that is shipped; another one needs no change there.
// Flow:   starting_at() for a new key; then roll(now) before everything that reads or changes it,
//         because no timer runs for an idle key.
// Shape:  end_ms    when time changes it next: roll() does nothing before, and over() is false. A
//                   queue's timer is set to it. Two reads with the same end_ms see the same window,
//                   so a permit may be refunded.
//         approved  permits in use, and denied, requests: for views only.
// Units:  permits; milliseconds of the monotonic clock, rounded down.
// Errors: none: whether it fits is a bool, and what does not fit changes nothing.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace sluice::limiter {

// `limit` and `window_ms` are the policy's, which may change between two calls.
template <typename Window>
concept WindowAlgorithm = std::is_trivially_copyable_v<Window> &&
    std::equality_comparable<Window> &&
    requires(Window window, const Window& seen, int64_t now_ns, int64_t now_ms, int64_t window_ms,
             int64_t end_ms, uint32_t cost, uint32_t limit, uint32_t count) {
  // Of a new key; of a key that does not exist, which has used nothing.
  { Window::starting_at(now_ns, window_ms) }
  noexcept->std::same_as<Window>;
  { Window::unused_at(now_ms) }
  noexcept->std::same_as<Window>;

  // The one that had these; after a restart of the server.
  { Window::restored(end_ms, count, count) }
  noexcept->std::same_as<Window>;

  { seen.end_ms } -> std::convertible_to<int64_t>;
  { seen.approved } -> std::convertible_to<uint32_t>;
  { seen.denied } -> std::convertible_to<uint32_t>;
  { seen.over(now_ms) }
  noexcept->std::same_as<bool>;
  // When its present count began, or later.
  { seen.begin_ms(window_ms) }
  noexcept->std::same_as<int64_t>;
  // From when on a new key would be no different: a full table may give up this one.
  { seen.fresh_ms() }
  noexcept->std::same_as<int64_t>;
  // From when on the key is forgotten, and whether that is now.
  { seen.expiry_ms(window_ms) }
  noexcept->std::same_as<int64_t>;
  { seen.expired(now_ms, window_ms) }
  noexcept->std::same_as<bool>;

  // take() is fits() and, if so, the charge.
  { window.roll(now_ms, window_ms) }
  noexcept;
  { seen.fits(cost, limit) }
  noexcept->std::same_as<bool>;
  { window.take(cost, limit) }
  noexcept->std::same_as<bool>;
  { window.deny() }
  noexcept;
  { window.release(cost) }
  noexcept;
  // The policy has another window_ms, from now on; what was counted stays.
  { window.restart(now_ns, window_ms) }
  noexcept;
  // After a restart: time changes it no later than it would have without.
  { window.end_by(end_ms) }
  noexcept;

  { seen.remaining(limit) }
  noexcept->std::same_as<uint32_t>;
  // Until permits are free again by themselves.
  { seen.reset_ms(now_ms, window_ms) }
  noexcept->std::same_as<int64_t>;
};

}  // namespace sluice::limiter
