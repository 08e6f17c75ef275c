// The policies of keys without an extra: a cell names that of its key by a number of six bits.
// Shape:  as many places as there are numbers. A place is taken by the first key of a policy and
//         free again after the last. New rules make all of them stale: keys leave them one by one,
//         when they are matched again.
// Errors: find_or_add() returns `none` when all places are taken: the key gets an extra instead.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "limiter/policy.hpp"
#include "shard/key_cell.hpp"

namespace sluice::shard {

class PolicyClasses {
 public:
  using Index = uint32_t;
  static constexpr uint32_t count = KeyCell::policies_count;
  static constexpr Index none = count;

  struct Class {
    limiter::Policy policy;
    uint32_t keys = 0;
    bool stale = false;
    base::Now stale_since{};  // when the first rules since then were adopted
  };

  const Class& operator[](Index index) const noexcept { return classes_[index]; }

  // The class of a policy of the rules that hold now.
  Index find_or_add(const limiter::Policy& policy) noexcept {
    Index free = none;
    for (Index index = 0; index < count; ++index) {
      Class& each = classes_[index];
      if (each.keys == 0) {
        if (free == none) free = index;
      } else if (!each.stale && each.policy == policy) {
        return index;
      }
    }
    if (free != none) {
      classes_[free] = {.policy = policy};
    } else {
      was_full_ = true;
    }
    return free;
  }

  void enter(Index index) noexcept { ++classes_[index].keys; }
  void leave(Index index) noexcept {
    ASSERT(classes_[index].keys > 0);
    --classes_[index].keys;
  }

  // Some key had to take an extra since the start.
  bool was_full() const noexcept { return was_full_; }

  // Whether some key has a policy with a window of at least this length.
  bool has_window_of(int64_t window_ms) const noexcept {
    return std::any_of(classes_.begin(), classes_.end(), [window_ms](const Class& each) {
      return each.keys > 0 && each.policy.window_ms >= window_ms;
    });
  }

  void make_stale(base::Now now) noexcept {
    for (Class& each : classes_) {
      if (!each.stale) each.stale_since = now;
      each.stale = true;
    }
  }

 private:
  std::array<Class, count> classes_{};
  bool was_full_ = false;
};

}  // namespace sluice::shard
