// A fixed window in a key's cell.
// Shape:  word   63..31 end_ms, low 33 bits | 30 KeyCell's | 29..0 approved permits
//         tail   31..24 end_ms, high 8 bits | 23..18 KeyCell's | 17..0 denied
// Units:  milliseconds of the monotonic clock: 41 bits are 69 years.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "limiter/fixed_window.hpp"
#include "shard/window_cell.hpp"

namespace sluice::shard {

struct FixedWindowPacking {
  using Window = limiter::FixedWindow;
  static constexpr uint32_t denied_max = (1U << 18) - 1;

  static constexpr PackedWindow pack(const Window& window) noexcept {
    const auto end_ms = static_cast<uint64_t>(window.end_ms);
    return {.word = end_ms << 31 | window.approved,
            .tail = static_cast<uint32_t>(end_ms >> 33) << 24 | window.denied};
  }
  static constexpr Window unpack(const PackedWindow& packed) noexcept {
    return {.end_ms = end_ms(packed),
            .approved = static_cast<uint32_t>(packed.word) & approved_mask,
            .denied = packed.tail & denied_max};
  }

  static constexpr int64_t end_ms(const PackedWindow& packed) noexcept {
    return static_cast<int64_t>(packed.word >> 31 | uint64_t{packed.tail >> 24} << 33);
  }
  static constexpr bool take(uint64_t& word, uint32_t&, uint32_t cost, uint32_t limit) noexcept {
    DEBUG_ASSERT(limit <= limits::permits_max);
    if ((word & approved_mask) + cost > limit) return false;
    word += cost;
    return true;
  }
  static constexpr bool deny(uint64_t&, uint32_t& tail) noexcept {
    if ((tail & denied_max) == denied_max) return false;
    ++tail;
    return true;
  }

 private:
  static constexpr uint32_t approved_mask = (1U << 30) - 1;
  static_assert(limits::permits_max <= approved_mask);
};

}  // namespace sluice::shard
