// The interface through which a worker asks the shard of its keys.
// Flow:   the entries of a loop iteration, or handles -> decide() -> verdicts (and details);
//         outcomes of waiters come out as grants (api/decider.hpp).
// Shape:  KeyShard is the implementation that is shipped.
// Units:  permits; `now` in nanoseconds.
// Errors: none: every outcome is a Verdict. When full: table_full, waiters_full, no_handle.
// Lives:  one thread only; reads no clock, draws no random number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "api/decider.hpp"
#include "api/entry.hpp"
#include "api/verdict.hpp"
#include "base/time.hpp"
#include "policy/rule_book.hpp"
#include "state/state_sink.hpp"

namespace sluice::shard {

// Where decide() writes, one of each per entry. It writes `details` and `waiters` only where the
// entry asked for details, or was queued; all others keep their contents.
struct Answers {
  std::span<api::Verdict> verdicts;
  std::span<api::Detail> details;
  std::span<api::WaiterId> waiters;

  Answers from(size_t first) const noexcept {
    return {verdicts.subspan(first), details.subspan(first), waiters.subspan(first)};
  }
};

struct Statistics {
  std::array<uint64_t, api::verdicts_count> decisions{};  // by verdict; a waiter's outcome too
  uint64_t released = 0;
  uint64_t keys_expired = 0;
  uint64_t keys_evicted = 0;  // past their window, in a full table
};

// A page of keys in table order. Positions are hashes: a key that lives throughout a walk from
// cursor 0 to the end is listed exactly once, also while the table grows.
struct Page {
  std::span<const api::KeyState> keys;  // until the shard's next call
  uint64_t next_cursor = 0;             // 0: this was the last page
};

// Some of the keys whose windows survive a restart, by their positions as in Page.
struct WindowsToWrite {
  uint64_t cursor = 0;  // from here on
  uint64_t end = 0;     // up to here; positions_end: all
  uint32_t buckets_max = 0;
};
inline constexpr uint64_t positions_end = uint64_t{1} << 32;

// What became of a record: no older one about the key counts in any case.
enum class Restoring : uint8_t { is_there, is_over, has_no_room };

// One of the keys with the most entries of late; sampled (key_traffic.hpp). A verdict that is
// neither approved nor queued counts as denied.
struct HeavyKey {
  std::string_view key;    // its first 256 bytes; until the shard's next call
  uint32_t key_bytes = 0;  // of the whole key
  double approved_per_s = 0;
  double denied_per_s = 0;
  double queued_per_s = 0;
  double per_s_max = 0;                 // at most: with entries from before the key was watched
  std::optional<uint32_t> waiting = 0;  // now; unset for a key that was cut

  double per_s() const noexcept { return approved_per_s + denied_per_s + queued_per_s; }
};

class KeyDecider : public api::Decider {
 public:
  // Decides `entries` of the connections of shard `origin` in their order. Outcomes of waiters that
  // follow from this come out as grants.
  virtual void decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
                      api::ShardId origin) noexcept = 0;

  // The same, of plain entries (one permit, nothing else) whose keys have these hashes.
  virtual void decide(std::span<const api::Entry> entries, std::span<const api::KeyHash> hashes,
                      const Answers& answers, base::Now now, api::ShardId origin) noexcept = 0;

  // Decides a request of one permit for each of these keys, in order. The handles are held, and the
  // keys belong to this shard.
  virtual void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
                      base::Now now) noexcept = 0;

  // The number of a key, of this shard or another, until each intern() has had its
  // drop_handle_reference(). no_handle: handles_max keys are held, or their text has no room left.
  virtual api::Handle intern(std::string_view key) noexcept = 0;
  virtual void drop_handle_reference(api::Handle handle) noexcept = 0;
  // Valid until the handle is freed.
  virtual std::string_view key_of(api::Handle handle) const noexcept = 0;
  // Writes the keys of these handles, which are held. Returns the bytes of their text: more than
  // `keys.text` has if it is too small, and some keys are not written.
  virtual size_t look_up(std::span<const api::Handle> handles,
                         const api::HeldKeys& keys) const noexcept = 0;

  // Adopts rules that hold from now on for every key; returns the previous ones. Keys with waiters
  // are matched again in the next calls of run_due(), others when they are next used: with the same
  // effect as if all had been matched at once. But between two calls of run_due() only so many
  // (match_share.hpp): plain entries, and handles, may find a key that still has to follow its
  // earlier rules. If rules are replaced before a key was matched
  // again, the newest rules apply to that key from the time when the first replacement was adopted.
  // A window of another length begins then and keeps its counters; what requests have changed stays
  // where the rules are the same as before.
  virtual std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                                  base::Now now) noexcept = 0;

  // The sweep lags behind its pace: call run_due() again soon even if nothing is due.
  virtual bool is_sweep_behind() const noexcept = 0;

  // Neither creates the key nor counts as use. nullopt when the key is not live at `now`.
  virtual std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept = 0;

  // Live keys from `cursor` on, about `keys_max` of them (at most limits::inspect_page_max). A
  // page of a thinly filled table may be empty although more follow.
  virtual Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept = 0;

  // The keys with the most entries, most first; until the shard's next call.
  virtual std::span<const HeavyKey> heaviest_keys(uint32_t keys_max, base::Now now) noexcept = 0;

  // Whether there may be keys whose windows last Options::kept_window_ms or longer.
  virtual bool may_have_kept_windows() const noexcept = 0;
  // Writes the records of those keys; a key that is neither made nor forgotten meanwhile is in
  // exactly one of the calls that go from 0 to positions_end. Returns where the next call goes on.
  virtual uint64_t write_windows(const WindowsToWrite& which, state::WindowSink& sink,
                                 base::Now now) noexcept = 0;
  // Makes a key of a record of an earlier start, unless it is there already or its time is over.
  // If the rules have changed since, as adopt() does.
  virtual Restoring restore(const state::WindowRecord& window, base::Now now) noexcept = 0;

  virtual uint32_t keys_count() const noexcept = 0;
  virtual uint32_t handles_count() const noexcept = 0;
  virtual const Statistics& statistics() const noexcept = 0;
};

}  // namespace sluice::shard
