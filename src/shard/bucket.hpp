// One cache line of the key table: three keys' tags and windows.
// Shape:  word   63..31 end_ms, low 33 bits | 30 has an extra | 29..0 approved permits
//         tail   31..24 end_ms, high 8 bits | 23..18 policy (policy_classes.hpp) | 17..0 denied;
//                with an extra: its index, and all of that lies there (key_extra.hpp)
//         overflow: how many keys whose home is this bucket, or one before it, lie behind it. A
//                search ends where it is 0, so taking a key out leaves no tombstone.
// Units:  milliseconds of the monotonic clock: 41 bits are 69 years.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "limiter/fixed_window.hpp"

namespace sluice::shard {

struct alignas(64) Bucket {
  static constexpr uint32_t slots_count = 3;
  static constexpr uint32_t policies_count = 64;
  static constexpr uint32_t denied_max = (1U << 18) - 1;  // beyond it the key gets an extra

  uint64_t tags[slots_count];  // 0: the slot is empty
  uint64_t words[slots_count];
  uint32_t tails[slots_count];
  uint32_t overflow;

  // A bit per slot that holds `tag`. Without branches: which slot it is, is unpredictable.
  uint32_t match(uint64_t tag) const noexcept {
    uint32_t found = static_cast<uint32_t>(tags[0] == tag) |
                     static_cast<uint32_t>(tags[1] == tag) << 1 |
                     static_cast<uint32_t>(tags[2] == tag) << 2;
    asm("" : "+r"(found));  // else g++ 12 makes three branches of it
    return found;
  }

  bool has_extra(uint32_t slot) const noexcept { return (words[slot] & extra_bit) != 0; }

  uint32_t extra(uint32_t slot) const noexcept {
    DEBUG_ASSERT(has_extra(slot));
    return tails[slot];
  }

  limiter::FixedWindow window(uint32_t slot) const noexcept {
    DEBUG_ASSERT(!has_extra(slot));
    return {.end_ms = end_ms(slot),
            .approved = static_cast<uint32_t>(words[slot]) & approved_mask,
            .denied = tails[slot] & denied_max};
  }

  uint32_t policy(uint32_t slot) const noexcept {
    DEBUG_ASSERT(!has_extra(slot));
    return tails[slot] >> policy_shift & (policies_count - 1);
  }

  void set_window(uint32_t slot, const limiter::FixedWindow& window, uint32_t policy) noexcept {
    DEBUG_ASSERT(window.denied <= denied_max && policy < policies_count);
    const auto end_ms = static_cast<uint64_t>(window.end_ms);
    words[slot] = end_ms << 31 | window.approved;
    tails[slot] =
        static_cast<uint32_t>(end_ms >> 33) << 24 | policy << policy_shift | window.denied;
  }
  // Of the same policy.
  void set_window(uint32_t slot, const limiter::FixedWindow& window) noexcept {
    set_window(slot, window, policy(slot));
  }

  void set_extra(uint32_t slot, uint32_t index) noexcept {
    words[slot] = extra_bit;
    tails[slot] = index;
  }

  // As FixedWindow has them, in place: unpacking a window and packing it again costs more than
  // all the rest of a decision.
  int64_t end_ms(uint32_t slot) const noexcept {
    DEBUG_ASSERT(!has_extra(slot));
    return static_cast<int64_t>(words[slot] >> 31 | uint64_t{tails[slot] >> 24} << 33);
  }
  bool take(uint32_t slot, uint32_t cost, uint32_t limit) noexcept {
    DEBUG_ASSERT(!has_extra(slot) && limit <= limits::permits_max);
    if ((words[slot] & approved_mask) + cost > limit) return false;
    words[slot] += cost;
    return true;
  }
  // False when only an extra can count one more.
  bool deny(uint32_t slot) noexcept {
    DEBUG_ASSERT(!has_extra(slot));
    if ((tails[slot] & denied_max) == denied_max) return false;
    ++tails[slot];
    return true;
  }

 private:
  static constexpr uint32_t policy_shift = 18;
  static constexpr uint32_t approved_mask = (1U << 30) - 1;
  static constexpr uint64_t extra_bit = 1U << 30;
  static_assert(limits::permits_max <= approved_mask);
};
static_assert(sizeof(Bucket) == 64);

// Where a key lives; until the table's next insert or erase.
struct Place {
  Bucket* bucket = nullptr;
  uint32_t slot = 0;
  explicit operator bool() const noexcept { return bucket != nullptr; }
  bool operator==(const Place&) const = default;
};

}  // namespace sluice::shard
