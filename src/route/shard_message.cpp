#include "route/shard_message.hpp"

#include <algorithm>
#include <utility>

namespace sluice::route {
namespace {

constexpr size_t entry_bytes = sizeof(api::Entry) + sizeof(api::Overrides) + sizeof(api::Detail) +
                               sizeof(api::KeyHash) + sizeof(api::WaiterId) + 2 * sizeof(uint16_t) +
                               sizeof(api::Verdict);

// An empty message takes the part of any request.
constexpr uint32_t arrays_length(uint32_t entries_max) noexcept {
  return std::max(entries_max, limits::frame_entries_max);
}

// The next array in the memory.
template <typename T>
T* carve(std::byte*& memory, size_t count) noexcept {
  DEBUG_ASSERT(reinterpret_cast<uintptr_t>(memory) % alignof(T) == 0);
  return reinterpret_cast<T*>(std::exchange(memory, memory + count * sizeof(T)));
}

}  // namespace

size_t ShardMessage::memory_bytes(uint32_t entries_max) noexcept {
  const size_t bytes = text_bytes_max + arrays_length(entries_max) * entry_bytes;
  return (bytes + 63) / 64 * 64;
}

ShardMessage::ShardMessage(uint32_t entries_max, std::byte* memory) : entries_max_(entries_max) {
  parts_.reserve(entries_max);
  runs_.reserve(entries_max);
  notices.reserve(entries_max);
  grants.reserve(entries_max);
  const uint32_t length = arrays_length(entries_max);
  text_ = carve<char>(memory, text_bytes_max);
  entries_ = carve<api::Entry>(memory, length);
  overrides_ = carve<api::Overrides>(memory, length);
  details_ = carve<api::Detail>(memory, length);
  hashes_ = carve<api::KeyHash>(memory, length);
  waiters_ = carve<api::WaiterId>(memory, length);
  key_sizes_ = carve<uint16_t>(memory, length);
  places_ = carve<uint16_t>(memory, length);
  verdicts_ = carve<api::Verdict>(memory, length);
}

void ShardMessage::begin_part(uint32_t split, Form form, uint32_t entries_count,
                              bool is_whole) noexcept {
  DEBUG_ASSERT(!is_full());
  parts_.push_back({.split = split,
                    .first_entry = entries_count_,
                    .entries_count = entries_count,
                    .is_whole = is_whole});
  if (runs_.empty() || runs_.back().form != form) {
    runs_.push_back({.form = form, .first_entry = entries_count_, .text_begin = text_bytes_});
  }
  runs_.back().entries_count += entries_count;
}

char* ShardMessage::take_text(size_t bytes) noexcept {
  ASSERT(text_bytes_ + bytes <= text_bytes_max);
  return text_ + std::exchange(text_bytes_, text_bytes_ + bytes);
}

void ShardMessage::add(const KeyColumn& keys, uint32_t first_place) noexcept {
  std::copy_n(keys.text.data(), keys.text.size(), take_text(keys.text.size()));
  std::copy_n(keys.sizes.data(), keys.sizes.size(), key_sizes_ + entries_count_);
  if (!parts_.back().is_whole) {
    uint16_t* const places = places_ + entries_count_;
    for (uint32_t i = 0; i < keys.sizes.size(); ++i) {
      places[i] = static_cast<uint16_t>(first_place + i);
    }
  }
  entries_count_ += static_cast<uint32_t>(keys.sizes.size());
}

void ShardMessage::add(const api::HeldKey& key, uint32_t place) noexcept {
  const uint32_t index = entries_count_++;
  std::copy_n(key.data, key.bytes, take_text(key.bytes));
  key_sizes_[index] = key.bytes;
  hashes_[index] = key.hash;
  places_[index] = static_cast<uint16_t>(place);
}

void ShardMessage::add(const api::Entry& entry, uint32_t place) noexcept {
  const uint32_t index = entries_count_++;
  char* const key = take_text(entry.key_bytes);
  std::copy_n(entry.key_data, entry.key_bytes, key);  // perhaps no bytes, from a null pointer
  entries_[index] = entry;
  entries_[index].key_data = key;
  places_[index] = static_cast<uint16_t>(place);
  if (entry.given_overrides == nullptr) return;
  overrides_[index] = *entry.given_overrides;
  entries_[index].given_overrides = &overrides_[index];
}

void ShardMessage::clear() noexcept {
  entries_count_ = 0;
  text_bytes_ = 0;
  parts_.clear();
  runs_.clear();
  notices.clear();
  grants.clear();
  tasks.clear();
}

}  // namespace sluice::route
