// Laps over all keys by their positions, a share at a time: what the cuts of their windows have.
// Flow:   begin_cut() -> begin_share(), if one is due -> move() until the share's end -> the lap's
//         end, with its last share -> what an earlier lap wrote is superseded.
// Shape:  a lap lasts window_lap_ns_min or, where it takes much of the thread's time, 33 times
//         that. A share reaches as far as the lap's time has come, and window_share_ns more.
// Lives:  values; time is an argument.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

// A lap, a share and the commit take no more than 10 s together, unless the disk is slow.
inline constexpr int64_t window_lap_ns_min = 7 * base::ns_per_s;
inline constexpr int64_t window_share_ns = base::ns_per_s;

class WindowLaps {
 public:
  bool is_under_way() const noexcept { return cursor_ < shard::positions_end; }
  // When the next share is due, of this lap or the next one.
  int64_t next_share_ns() const noexcept { return next_share_ns_; }
  // No window has changed since the last lap, or there is none: no lap is needed.
  void skip(int64_t now_ns) noexcept;

  // Of this epoch, without a share so far.
  void begin_cut(uint64_t epoch) noexcept;
  // The first one begins a lap; `is_whole`: of all keys.
  void begin_share(int64_t now_ns, bool is_whole) noexcept;
  uint64_t cursor() const noexcept { return cursor_; }
  uint64_t share_end() const noexcept { return share_end_; }
  bool has_share() const noexcept { return share_begin_ != share_end_; }
  // Up to there, which took so much of the thread's time.
  void move(uint64_t cursor, int64_t took_ns) noexcept;

  // What was written before this epoch is superseded; 0: nothing is.
  uint64_t complete_since_epoch() const noexcept { return complete_since_; }
  // Nothing before this cut is needed.
  void drop_earlier() noexcept { complete_since_ = epoch_; }
  uint64_t epoch() const noexcept { return epoch_; }
  // All calls until then are in the cuts so far, or, without `with_last`, in those before the last.
  int64_t has_until_ns(bool with_last) const noexcept;

 private:
  struct Lap {
    uint64_t first_epoch = 0;
    int64_t begun_ns = 0;
    int64_t lasts_ns = 0;  // 0: it is written at once

    uint64_t position_at(int64_t now_ns) const noexcept;
    // It has all calls until then of keys from this position on.
    int64_t has_until_ns(uint64_t position) const noexcept;
  };

  void end_lap() noexcept;

  uint64_t epoch_ = 0;                           // of the last cut
  uint64_t cursor_ = shard::positions_end;       // of the lap; positions_end: none is under way
  uint64_t share_begin_ = shard::positions_end;  // of the last cut
  uint64_t share_end_ = shard::positions_end;
  Lap lap_;      // that is under way
  Lap last_;     // that is complete
  Lap earlier_;  // the one before
  uint64_t complete_since_ = 0;
  int64_t took_ns_ = 0;  // of the thread's time, by the lap
  int64_t next_lasts_ns_ = window_lap_ns_min;
  int64_t next_share_ns_ = 0;
};

}  // namespace sluice::server
