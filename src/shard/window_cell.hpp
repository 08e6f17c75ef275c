// A key's cell with the window that lies in it, for any algorithm, and a decision in place.
// Flow:   KeyTable or HandleBook -> KeyCell -> WindowCell<Packing> -> decide_in_place().
// Shape:  key_cell.hpp; the bits that it leaves are the packing's.
// Lives:  a view, until the key moves.
#pragma once

#include <concepts>
#include <cstdint>

#include "api/verdict.hpp"
#include "base/assert.hpp"
#include "limiter/policy.hpp"
#include "limiter/window_algorithm.hpp"
#include "shard/key_cell.hpp"

namespace sluice::shard {

// A window in the bits of a cell.
struct PackedWindow {
  uint64_t word;  // bit 30 is clear: KeyCell's
  uint32_t tail;  // bits 23 to 18 are clear: KeyCell's
};

// How an algorithm's window lies in a cell, and the steps of a decision in place: unpacking a
// window and packing it again would cost more than all the rest of a decision. They do what the
// window's own functions do, and leave bits that are KeyCell's as they are.
template <typename Packing>
concept WindowPacking = limiter::WindowAlgorithm<typename Packing::Window> &&
    requires(const typename Packing::Window& window, const PackedWindow& packed, uint64_t& word,
             uint32_t& tail, uint32_t cost, uint32_t limit) {
  { Packing::pack(window) }
  noexcept->std::same_as<PackedWindow>;
  { Packing::unpack(packed) }
  noexcept->std::same_as<typename Packing::Window>;
  // The most denials that fit; a window with more lies in an extra.
  { Packing::denied_max } -> std::convertible_to<uint32_t>;
  { Packing::end_ms(packed) }
  noexcept->std::same_as<int64_t>;
  { Packing::take(word, tail, cost, limit) }
  noexcept->std::same_as<bool>;
  // False, and nothing changed, when only an extra can count one more.
  { Packing::deny(word, tail) }
  noexcept->std::same_as<bool>;
};

template <WindowPacking Packing>
class BasicWindowCell : public KeyCell {
 public:
  using Window = typename Packing::Window;
  static constexpr uint32_t denied_max = Packing::denied_max;

  using KeyCell::KeyCell;
  explicit BasicWindowCell(KeyCell cell) noexcept : KeyCell(cell) {}

  Window window() const noexcept {
    DEBUG_ASSERT(!is_indirect());
    return Packing::unpack(packed());
  }
  int64_t end_ms() const noexcept {
    DEBUG_ASSERT(!is_indirect());
    return Packing::end_ms(packed());
  }

  void set_window(const Window& window, uint32_t policy) noexcept {
    DEBUG_ASSERT(window.denied <= denied_max && policy < policies_count);
    const PackedWindow packed = Packing::pack(window);
    DEBUG_ASSERT((packed.word & indirect_bit) == 0 && (packed.tail & policy_bits) == 0);
    set(packed.word, packed.tail | policy << policy_shift);
  }
  // Keeps the policy.
  void set_window(const Window& window) noexcept { set_window(window, policy()); }

  bool take(uint32_t cost, uint32_t limit) noexcept {
    DEBUG_ASSERT(!is_indirect());
    return Packing::take(word(), tail(), cost, limit);
  }
  bool deny() noexcept {
    DEBUG_ASSERT(!is_indirect());
    return Packing::deny(word(), tail());
  }

 private:
  static constexpr uint32_t policy_bits = (policies_count - 1) << policy_shift;

  PackedWindow packed() const noexcept { return {word(), tail() & ~policy_bits}; }
};

// Decides a key with its window in its cell, if the answer needs no more than that. Else returns
// `none`: the key is to be decided another way, and nothing is charged.
template <WindowPacking Packing>
[[gnu::always_inline]] inline api::Verdict decide_in_place(BasicWindowCell<Packing> own,
                                                           const limiter::Policy& policy,
                                                           uint32_t cost, bool may_wait,
                                                           int64_t now_ms) noexcept {
  if (cost > policy.max_requests) return api::Verdict::none;
  if (now_ms >= own.end_ms()) [[unlikely]] {
    typename Packing::Window window = own.window();
    if (window.expired(now_ms, policy.window_ms)) return api::Verdict::none;
    window.roll(now_ms, policy.window_ms);
    own.set_window(window);
  }
  if (own.take(cost, policy.max_requests)) return api::Verdict::approved;
  if (may_wait || !own.deny()) return api::Verdict::none;
  return api::Verdict::denied;
}

}  // namespace sluice::shard
