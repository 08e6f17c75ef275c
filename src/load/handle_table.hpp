// The handles that one connection has for the keys of its stream.
// Shape:  a table by key, as a caller keeps it: lookups follow the stream's random order, but the
//         table has places for this stream's keys only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "load/key_sequence.hpp"

namespace sluice::load {

class HandleTable {
 public:
  HandleTable(std::span<const PlannedEntry> planned, uint32_t keys_count) {
    std::vector<uint32_t> place_of(keys_count, nowhere);
    for (const PlannedEntry entry : planned) place_of[entry.key] = 0;
    for (uint32_t key = 0; key < keys_count; ++key) {
      if (place_of[key] == nowhere) continue;
      place_of[key] = static_cast<uint32_t>(keys_.size());
      keys_.push_back(key);
    }
    places_.reserve(planned.size());
    for (const PlannedEntry entry : planned) places_.push_back(place_of[entry.key]);
    handles_.reserve(keys_.size());
  }

  // The stream's keys, each once; add() takes their handles in this order.
  std::span<const uint32_t> keys() const noexcept { return keys_; }
  void add(std::span<const uint32_t> handles) {
    handles_.insert(handles_.end(), handles.begin(), handles.end());
  }

  // The handles of all keys, each once.
  std::span<const uint32_t> handles() const noexcept { return handles_; }
  uint32_t of_question(size_t index) const noexcept { return handles_[places_[index]]; }

 private:
  static constexpr uint32_t nowhere = UINT32_MAX;

  std::vector<uint32_t> keys_;
  std::vector<uint32_t> places_;  // of each entry's key
  std::vector<uint32_t> handles_;
};

}  // namespace sluice::load
