#include "handle_table.hpp"

#include "sluicegate/error.hpp"

namespace sluicegate {

uint32_t HandleTable::add(std::string_view key) {
  const std::lock_guard lock{mutex_};
  if (const auto found = handles_.find(key); found != handles_.end()) return found->second;
  const uint32_t handle = count_.load(std::memory_order_relaxed);
  if (handle == keys_max) {
    throw LimitExceeded("a client interns " + std::to_string(keys_max) +
                        " keys at most: acquire further ones by key");
  }
  if (at(handle) == 0) {
    owned_.push_back(std::make_unique<Block>());
    blocks_[handle >> block_bits].store(owned_.back().get(), std::memory_order_release);
  }
  const std::string_view text = texts_.emplace_back(key);
  block(handle).keys[at(handle)] = text;
  handles_.emplace(text, handle);
  count_.store(handle + 1, std::memory_order_release);
  return handle;
}

}  // namespace sluicegate
