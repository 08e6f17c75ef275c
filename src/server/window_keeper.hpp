// Hands over the windows of one shard's keys that survive a restart, in laps over all keys.
// Flow:   note_turn() -> due_ns() -> begin_cut() with the cut of what else survives -> write_some()
//         until the cut has its share of the lap -> finish() -> parts(), until the next cut.
// Shape:  a lap takes window_lap_ns_min or, in a huge table, as long as keeps it below 2 % of the
//         thread's time; a share of it is due once a second. What an earlier lap wrote is
//         superseded when one is complete. There is none while no call comes, nor while no window
//         lasts so long. So decisions need not note anything, and a crash loses no more than a lap.
// Errors: the constructor throws when memory cannot be had.
// Bounds: every key at most once in a cut.
// Lives:  as StateKeeper. Nothing is kept where --state-window-millis is 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/time.hpp"
#include "server/state_options.hpp"
#include "shard/key_decider.hpp"
#include "shard/key_shard.hpp"
#include "shard/key_text.hpp"
#include "state/window_parts.hpp"

namespace sluice::server {

// A lap, a share and the commit take no more than 10 s together, unless the disk is slow.
inline constexpr int64_t window_lap_ns_min = 7 * base::ns_per_s;
inline constexpr int64_t window_share_ns = base::ns_per_s;

class WindowKeeper {
 public:
  // `store` are the options of the shard's store of keys.
  WindowKeeper(const StateOptions& options, const shard::Options& store, shard::KeyDecider& keys);

  // Once a turn, before due_ns().
  void note_turn(int64_t now_ns) noexcept;
  // Whether the turn has decided on keys.
  bool had_calls() const noexcept { return had_calls_; }
  // When there is a share to write; base::never_ns: not before another call.
  int64_t due_ns() const noexcept;

  // Which keys a cut has, besides its share.
  enum class Extent : uint8_t {
    share,
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
  uint64_t complete_since_epoch() const noexcept { return complete_since_; }
  // Since the first call whose effect on a window may not be durable; 0: all are.
  int64_t behind_ns(int64_t now_ns) const noexcept;
  uint64_t reserved_bytes() const noexcept { return parts_ ? parts_->reserved_bytes() : 0; }

 private:
  bool is_on() const noexcept { return parts_ != nullptr; }
  bool is_under_way() const noexcept { return cursor_ < shard::positions_end; }
  uint64_t calls_count() const noexcept;
  void begin_lap(uint64_t epoch, int64_t now_ns, int64_t lasts_ns) noexcept;
  void end_lap() noexcept;

  struct Lap {
    uint64_t first_epoch = 0;
    int64_t begun_ns = 0;
    int64_t lasts_ns = 0;  // 0: it is written at once

    uint64_t position_at(int64_t now_ns) const noexcept;
    // It has all calls until then of keys from this position on.
    int64_t has_until_ns(uint64_t position) const noexcept;
  };

  const CutSchedule* const schedule_;
  const std::function<int64_t()> cpu_ns_;
  shard::KeyDecider& keys_;
  std::unique_ptr<state::WindowParts> parts_;
  uint64_t epoch_ = 0;                           // of the last cut
  uint64_t cursor_ = shard::positions_end;       // of the lap; positions_end: none is under way
  uint64_t share_begin_ = shard::positions_end;  // of the last cut
  uint64_t share_end_ = shard::positions_end;
  Lap lap_;      // that is under way
  Lap last_;     // that is complete
  Lap earlier_;  // the one before
  uint64_t complete_since_ = 0;
  uint64_t lap_calls_count_ = 0;   // before the last lap began
  uint64_t turn_calls_count_ = 0;  // before the next turn
  bool had_calls_ = false;
  int64_t lap_ns_ = window_lap_ns_min;
  int64_t lap_took_ns_ = 0;  // of the thread's time
  int64_t next_share_ns_ = 0;
};

}  // namespace sluice::server
