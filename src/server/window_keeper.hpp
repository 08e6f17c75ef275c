// Hands over the windows of one shard's keys that survive a restart, in laps over all keys.
// Flow:   note_turn() -> due_ns() -> begin_cut() with the cut of what else survives -> write_some()
//         until the cut has its share of the lap -> finish() -> parts(), until the next cut.
// Shape:  WindowLaps; a share is due once a second, while calls come and some window lasts so long.
//         So decisions need not note anything, and a crash loses no more than a lap.
// Errors: the constructor throws when memory cannot be had.
// Bounds: as state::WindowParts.
// Lives:  as StateKeeper. Nothing is kept where --state-window-millis is 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/time.hpp"
#include "server/state_options.hpp"
#include "server/window_laps.hpp"
#include "shard/key_decider.hpp"
#include "shard/key_shard.hpp"
#include "shard/key_text.hpp"
#include "state/window_parts.hpp"

namespace sluice::server {

class WindowKeeper {
 public:
  // `store` are the options of the shard's store of keys.
  WindowKeeper(const StateOptions& options, const shard::Options& store, shard::KeyDecider& keys);

  // Once a turn, before due_ns().
  void note_turn(int64_t now_ns) noexcept;
  // Decisions on keys of the turn.
  uint64_t turn_calls_count() const noexcept { return turn_calls_count_; }
  // When there is a share to write; base::never_ns: not before another call.
  int64_t due_ns() const noexcept;

  // Which keys a cut has.
  enum class Extent : uint8_t {
    little,   // a share, if that is late: somebody waits for the commit
    share,    // a share, if one is due
    changed,  // all, unless nothing can have changed since the last lap: of a clean stop
    all
  };
  void begin_cut(uint64_t epoch, Extent extent, int64_t now_ns) noexcept;
  // Of about so many buckets. False: the cut has all of its.
  bool write_some(uint32_t buckets, base::Now now) noexcept;
  void finish(const state::PartHeader& header) noexcept;

  std::span<const state::PartBytes> parts() const noexcept;
  uint64_t records_count() const noexcept { return parts_ ? parts_->records_count() : 0; }
  // Windows in parts of earlier epochs are superseded; 0: none are.
  uint64_t complete_since_epoch() const noexcept { return laps_.complete_since_epoch(); }
  // Since the first call whose effect on a window may not be durable; 0: all are.
  int64_t behind_ns(int64_t now_ns) const noexcept;
  uint64_t reserved_bytes() const noexcept { return parts_ ? parts_->reserved_bytes() : 0; }

 private:
  bool is_on() const noexcept { return parts_ != nullptr; }
  uint64_t calls_count() const noexcept;
  bool has_new_calls() const noexcept { return calls_count() != lap_calls_count_; }

  const CutSchedule* const schedule_;
  const std::function<int64_t()> cpu_ns_;
  shard::KeyDecider& keys_;
  std::unique_ptr<state::WindowParts> parts_;
  WindowLaps laps_;
  uint64_t lap_calls_count_ = 0;  // before the last lap began
  uint64_t calls_before_turn_ = 0;
  uint64_t turn_calls_count_ = 0;
};

}  // namespace sluice::server
