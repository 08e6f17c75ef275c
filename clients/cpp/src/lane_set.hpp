// The lanes of a client: one to begin with, then one per shard of the server, or of each node.
// Part of Client.
// Threads: all threads read without a lock; only the connector adds.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "lane.hpp"

namespace sluicegate {

class LaneSet {
 public:
  static constexpr uint32_t lanes_max = 1'024;  // as many as a link tag can name

  uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  Lane& operator[](uint32_t index) noexcept { return *lanes_[index]; }
  void add(std::unique_ptr<Lane> lane) {
    const uint32_t index = count();
    lanes_[index] = std::move(lane);
    count_.store(index + 1, std::memory_order_release);
  }
  bool is_connected(uint32_t index) const noexcept {
    return index < count() && lanes_[index]->is_connected();
  }

 private:
  std::array<std::unique_ptr<Lane>, lanes_max> lanes_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace sluicegate
