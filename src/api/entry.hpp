// One request for permits of a key, and everything that its answer can hold: the values that both
// dialects are decoded to.
// Flow:  wire/ decodes requests into entries, shard/ decides them, wire/ encodes verdicts.
// Lives: a key's bytes belong to a receive buffer, its overrides to the turn; both end with it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/verdict.hpp"

namespace sluice::api {

enum class Op : uint8_t {
  acquire,
  release,  // releases `cost` permits; the only verdict is approved
  look,     // reports the key and changes nothing: approved, or invalid_key
  refund,   // releases `cost` permits of a window that has begun in time
};

enum class QuotaCode : uint8_t;  // api/quota.hpp

// The shard that a connection, and so an entry, belongs to.
using ShardId = uint16_t;

// An override's "keep what the key has".
inline constexpr uint32_t keep = 0xFFFF'FFFF;
inline constexpr int64_t keep_window = -1;

// What a request sets for its key from now on, and what only few requests bring besides.
struct Overrides {
  uint32_t max_requests = keep;
  uint32_t max_requests_in_queue = keep;
  int64_t window_ms = keep_window;
  // Of its caller's logs, for those of another node that owns the key; empty: none.
  std::string_view correlation_id;
  bool operator==(const Overrides&) const = default;
};
inline constexpr Overrides no_overrides{};

// The index of a waiting entry's record at its origin; an entry with `no_ticket` cannot wait.
using Ticket = uint32_t;
inline constexpr Ticket no_ticket = 0xFFFF'FFFF;

// The index of a waiter in the shard that owns its key, reported with the verdict `queued`.
using WaiterId = uint32_t;
inline constexpr WaiterId no_waiter = 0xFFFF'FFFF;

// A key's number on one shard, assigned when the key is interned; `no_handle` names none.
using Handle = uint32_t;
inline constexpr Handle no_handle = 0xFFFF'FFFF;

// The secret hash of a key (shard/key_hash.hpp).
struct KeyHash {
  uint64_t tag;       // 0: no key; real tags are never 0
  uint32_t position;  // where the key stands in table order, whatever the table's size
  bool operator==(const KeyHash&) const = default;
};

// The keys that handles name, in columns: their text, one key after the other, the size and the
// hash of each.
struct HeldKeys {
  std::span<char> text;
  std::span<uint16_t> sizes;
  std::span<KeyHash> hashes;
};

namespace flag {
inline constexpr uint8_t may_wait = 1;       // wait in the key's queue instead of being denied
inline constexpr uint8_t waiters_full = 2;   // may wait, but its origin has no room to remember it
inline constexpr uint8_t wants_details = 4;  // fill the Detail of this entry
inline constexpr uint8_t shows_id = 8;       // takes a request id
inline constexpr uint8_t draining = 16;      // joins no queue any more: `draining`
inline constexpr uint8_t stays_here = 32;    // another node sent it: this one decides
// May wait, but its connection has its share of the waiters.
inline constexpr uint8_t connection_waiters_full = 128;
}  // namespace flag

struct Entry {
  const char* key_data = nullptr;
  uint32_t cost = 1;
  uint16_t key_bytes = 0;
  Op op = Op::acquire;
  uint8_t flags = 0;
  const Overrides* given_overrides = nullptr;  // null: none; few entries bring some
  Ticket ticket = no_ticket;
  uint32_t wait_ms_max = 0;  // 0: no limit of its own; of a refund: not_after_ms()

  // Of a refund: when the window must have begun, by the monotonic clock. Less than 2^32 ms ago.
  void set_not_after_ms(int64_t time_ms) noexcept { wait_ms_max = static_cast<uint32_t>(time_ms); }
  int64_t not_after_ms(int64_t now_ms) const noexcept {
    return now_ms - static_cast<uint32_t>(static_cast<uint32_t>(now_ms) - wait_ms_max);
  }
  std::string_view key() const noexcept { return {key_data, key_bytes}; }
  const Overrides& overrides() const noexcept {
    return given_overrides != nullptr ? *given_overrides : no_overrides;
  }
};
static_assert(sizeof(Entry) == 32, "the turn's entries: two to a cache line");

// What a caller may request beside the verdict. The limit is the key's current one.
struct Detail {
  uint32_t limit = 0;        // permits per window; a release sets only this; 0: no such key
  uint32_t remaining = 0;    // permits left in this window
  uint32_t position = 0;     // of a waiter that joins its queue: 1 is the next one to be served
  bool is_degraded = false;  // approved uncounted, because the key's owner does not answer
  // Of owner_unreachable: the owner's node plus one, if it is a gocc, which takes no such request.
  uint16_t unfit_owner_plus_one = 0;
  int64_t window_ms = 0;
  int64_t reset_ms = 0;        // until the window ends; rounded up
  int64_t retry_after_ms = 0;  // when asking again may help; 0: now, or never
  uint64_t request_id = 0;     // 0: none was requested
};

// What an approved waiter was granted, for a refund when no client receives it: the key (by hash,
// shard/key_hash.hpp) and the key's window.
struct RefundClaim {
  uint64_t key_tag = 0;
  int64_t window_end_ms = 0;
  uint32_t key_position = 0;
  uint32_t cost = 0;
  uint64_t reservation = 0;  // of an approved waiter for quotas: then only this is set
};

// The late outcome of an entry that was answered `queued`.
struct Grant {
  Ticket ticket = no_ticket;
  ShardId origin = 0;  // the shard that issued the ticket
  // Approved, wait_limit, withdrawn, never_fits or draining; of a waiter for quotas approved or
  // denied, and the reason is in `code`.
  Verdict verdict = Verdict::none;
  QuotaCode code{};
  Detail detail;             // of a waiter for quotas only retry_after_ms
  RefundClaim refund_claim;  // when approved
};

// A key as inspection shows it.
struct KeyState {
  std::string_view key;  // until the shard's next non-const call
  int64_t window_ms = 0;
  int64_t reset_ms = 0;
  uint32_t max_requests = 0;
  uint32_t max_requests_in_queue = 0;
  uint32_t approved = 0;  // this window; may exceed max_requests after that was lowered
  uint32_t denied = 0;    // this window
  uint32_t waiting = 0;
  // Permits of the first limits::shown_waiters_max in the queue, as long as `key` is valid; only of
  // a key that was asked for by its name.
  std::span<const uint32_t> waiting_costs;
};

}  // namespace sluice::api
