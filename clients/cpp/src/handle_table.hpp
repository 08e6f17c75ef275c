// The keys that a client has interned, and the server's handles for them. Part of Client.
// Shape:  the client's handle is an index. Its handle slot has the server's handle, and the tag of
//         the link on which that handle is valid: it is never used on another connection.
// Lives:  keys stay as long as the client; a handle is never reused for another key.
// Threads: all threads read handle slots and keys without a lock; add() takes one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluicegate {

class HandleTable {
 public:
  static constexpr uint32_t keys_max = 1 << 24;

  // The handle of a key, a new one if it has none. Throws LimitExceeded beyond keys_max keys.
  uint32_t add(std::string_view key);
  uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

  // The next two for handles below count().
  std::string_view key(uint32_t handle) const noexcept { return block(handle).keys[at(handle)]; }
  uint64_t handle_slot(uint32_t handle) const noexcept {
    return block(handle).handle_slots[at(handle)].load(std::memory_order_relaxed);
  }
  void set_handle_slot(uint32_t handle, uint32_t link_tag, uint32_t server_handle) noexcept {
    block(handle).handle_slots[at(handle)].store(uint64_t{link_tag} << 32 | server_handle,
                                                 std::memory_order_release);
  }

  static constexpr uint32_t link_tag_of(uint64_t handle_slot) noexcept {
    return static_cast<uint32_t>(handle_slot >> 32);
  }
  static constexpr uint32_t server_handle_of(uint64_t handle_slot) noexcept {
    return static_cast<uint32_t>(handle_slot);
  }

 private:
  static constexpr uint32_t block_bits = 14;

  struct Block {
    std::array<std::atomic<uint64_t>, 1 << block_bits> handle_slots{};
    std::array<std::string_view, 1 << block_bits> keys;
  };

  static constexpr size_t at(uint32_t handle) noexcept { return handle & ((1U << block_bits) - 1); }
  Block& block(uint32_t handle) const noexcept {
    return *blocks_[handle >> block_bits].load(std::memory_order_acquire);
  }

  std::mutex mutex_;
  std::unordered_map<std::string_view, uint32_t> handles_;  // into texts_
  std::deque<std::string> texts_;
  std::vector<std::unique_ptr<Block>> owned_;
  std::array<std::atomic<Block*>, (keys_max >> block_bits)> blocks_{};
  std::atomic<uint32_t> count_{0};
};

// Identifies a connection in a handle slot: the lane in the upper 10 bits, and the count of the
// lane's connections so far in the others, from 1; 0 is no connection.
constexpr uint32_t link_tag(uint32_t lane, uint32_t generation) noexcept {
  return lane << 22 | (generation & 0x3F'FFFF);
}

constexpr uint32_t lane_of_tag(uint32_t tag) noexcept {
  return tag >> 22;
}

}  // namespace sluicegate
