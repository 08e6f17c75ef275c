#include "route/shard_message.hpp"

#include <algorithm>
#include <utility>

#include "base/short_copy.hpp"

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

void ShardMessage::add(const KeyColumn& keys) noexcept {
  DEBUG_ASSERT(parts_.back().is_whole);
  std::copy_n(keys.text.data(), keys.text.size(), take_text(keys.text.size()));
  std::copy_n(keys.sizes.data(), keys.sizes.size(), key_sizes_ + entries_count_);
  entries_count_ += static_cast<uint32_t>(keys.sizes.size());
}

void ShardMessage::add(const KeyColumn& keys, std::span<const uint32_t> begins,
                       std::span<const uint16_t> places) noexcept {
  ASSERT(text_bytes_ + keys.text.size() <= text_bytes_max);
  uint16_t* const sizes = key_sizes_ + entries_count_;
  char* text = text_ + text_bytes_;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint16_t size = keys.sizes[places[i]];
    base::copy_short(text, keys.text.data() + begins[places[i]], size);
    text += size;
    sizes[i] = size;
  }
  std::copy(places.begin(), places.end(), places_ + entries_count_);
  text_bytes_ = static_cast<size_t>(text - text_);
  entries_count_ += static_cast<uint32_t>(places.size());
}

void ShardMessage::add(const api::HeldKeys& keys, std::span<const uint16_t> places) noexcept {
  std::copy(keys.text.begin(), keys.text.end(), take_text(keys.text.size()));
  std::copy(keys.sizes.begin(), keys.sizes.end(), key_sizes_ + entries_count_);
  std::copy(keys.hashes.begin(), keys.hashes.end(), hashes_ + entries_count_);
  std::copy(places.begin(), places.end(), places_ + entries_count_);
  entries_count_ += static_cast<uint32_t>(keys.sizes.size());
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
  const std::string_view id = entry.given_overrides->correlation_id;
  if (id.empty()) return;
  char* const copy = take_text(id.size());
  std::copy_n(id.data(), id.size(), copy);
  overrides_[index].correlation_id = {copy, id.size()};
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
