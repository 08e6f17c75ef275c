// One core's keys: finds or makes the key of each entry, asks the limiter, answers or queues.
// Flow:   the turn's entries, or handles -> Shard::decide -> verdicts (and details); waiters served
//         later, or never, come out as grants.
// Shape:  key_table (what every key has, hot), key_extra (overrides and waiters, for the few that
//         have them), waiter_line (FIFO per key), timer wheel (window ends of keys with waiters,
//         wait limits).
// Units:  permits; milliseconds inside, `now` in nanoseconds.
// Errors: none: every outcome is a Verdict. When full: table_full, waiters_full.
// Lives:  one core only; reads no clock, draws no random number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/time.hpp"
#include "limiter/policy.hpp"
#include "policy/rule_book.hpp"

namespace sluice::shard {

// XXH3 secret, drawn at start: it never leaves the process.
using HashSecret = std::array<std::byte, 192>;

// Told the key of every one that expires, before it is forgotten; for the log.
class ExpiryListener {
 public:
  virtual void on_expired(std::string_view key) noexcept = 0;

 protected:
  ~ExpiryListener() = default;
};

struct Options {
  uint32_t keys_max = 10'000'000;
  uint32_t handles_max = 1'000'000;
  uint32_t waiters_max = 100'000;
  uint32_t key_bytes_max = 1'024;
  bool requests_can_set_rate = true;
  bool requests_can_mod_queue = true;
  limiter::Policy policy;  // of every key that no rule matches, and that does not bring its own
  HashSecret hash_secret{};
  ExpiryListener* expiry_listener = nullptr;  // outlives the shard
};

// Where decide() writes, one of each per entry. `details` and `waiters` are written only where the
// entry asked for details, or was queued; they keep what they held elsewhere.
struct Answers {
  std::span<api::Verdict> verdicts;
  std::span<api::Detail> details;
  std::span<api::WaiterId> waiters;

  Answers from(size_t first) const noexcept {
    return {verdicts.subspan(first), details.subspan(first), waiters.subspan(first)};
  }
};

struct Statistics {
  std::array<uint64_t, api::verdicts_count> decisions{};  // by verdict; queued and its outcome both
  uint64_t released = 0;
  uint64_t keys_expired = 0;
  uint64_t keys_evicted = 0;  // past their window, in a full table
};

// A page of keys in table order. Positions are hashes: a key that lives throughout a walk from
// cursor 0 to the end is told exactly once, also while the table grows.
struct Page {
  std::span<const api::KeyState> keys;  // until the shard's next call
  uint64_t next_cursor = 0;             // 0: this was the last page
};

// One of the keys that are asked most of late; sampled (key_traffic.hpp). A verdict that is neither
// approved nor queued counts as denied.
struct HeavyKey {
  std::string_view key;    // its first 256 bytes; until the shard's next call
  uint32_t key_bytes = 0;  // of the whole key
  double approved_per_s = 0;
  double denied_per_s = 0;
  double queued_per_s = 0;
  double per_s_max = 0;                 // there may have been so many before the key was watched
  std::optional<uint32_t> waiting = 0;  // now; nothing for a key that was cut

  double per_s() const noexcept { return approved_per_s + denied_per_s + queued_per_s; }
};

class KeyStore;

class Shard {
 public:
  explicit Shard(const Options& options);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Decides `entries` of one core's connections in their order. Waiters that this serves or fails
  // come out as grants.
  void decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
              api::CoreId origin = 0) noexcept;

  // Decides a request of one permit for each of these keys, in order. They are held, and belong to
  // this core.
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept;

  // The number of a key, of this core or another, while somebody holds it; every intern() has its
  // let_go(). no_handle: as many are held as handles_max, or their text has no room left.
  api::Handle intern(std::string_view key) noexcept;
  void let_go(api::Handle handle) noexcept;
  // Until it is let go.
  std::string_view key_of(api::Handle handle) const noexcept;
  uint32_t handles_count() const noexcept;

  // Takes a waiter out of line; a grant `withdrawn` follows. False when it waits no more.
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::CoreId origin = 0) noexcept;

  // Takes a waiter whose client is gone out of line, without a grant. False as above.
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::CoreId origin = 0) noexcept;

  // Takes the permits of a grant back that reached nobody. False, and nothing happens, when their
  // window is over: a later one must not be credited.
  bool give_back(const api::Permit& permit, base::Now now) noexcept;

  // Answers every waiter `draining`.
  void drain(base::Now now) noexcept;

  // Rules that hold from now on, for every key; returns those that held before. Keys somebody waits
  // for are matched anew in the next calls of run_due(), others when they are next looked at: as if
  // all had been at once. (Rules that are replaced before anybody looks leave no trace but their
  // time: those that replaced them hold from it on.) A window whose length changes begins then, its
  // counters go on; what requests have changed stays where the rules say the same as before.
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept;

  // Serves what is due at `now`: windows that end with waiters, wait limits; sweeps a slice of the
  // table for expired keys. Bounded work; call again while next_due_ns() has passed.
  void run_due(base::Now now) noexcept;

  // When run_due() has work again; base::never_ns when only the sweep is left.
  int64_t next_due_ns() const noexcept;

  // The sweep lags behind its pace: call run_due() again soon even if nothing is due.
  bool sweep_late() const noexcept;

  // Outcomes that nobody has fetched, oldest first; never more than waiters_max.
  std::span<api::Grant> grants() noexcept;
  // Forgets all but the first `count`: who cannot fetch all moves the others to the front.
  void keep_grants(size_t count) noexcept;

  // Neither creates the key nor counts as use. Nothing when the key is not live at `now`.
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept;

  // Live keys from `cursor` on, about `keys_max` of them (at most limits::inspect_page_max). A
  // page of a thinly filled table may be empty although more follow.
  Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept;

  // The keys with the most entries, most first; until the shard's next call.
  std::span<const HeavyKey> heaviest_keys(uint32_t keys_max, base::Now now) noexcept;

  uint32_t keys_count() const noexcept;
  uint32_t waiters_count() const noexcept;
  const Statistics& statistics() const noexcept;

  // Address space reserved for all maxima together.
  uint64_t reserved_bytes() const noexcept;

  // Walks everything; aborts on a broken invariant. For tests.
  void check_invariants(base::Now now) const noexcept;

 private:
  std::unique_ptr<KeyStore> store_;
};

}  // namespace sluice::shard
