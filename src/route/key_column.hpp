// The keys of a request as they lie in its frame, or in a message: their text in one piece, and the
// size of each.
// Lives:  points into the frame or message.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/entry.hpp"

namespace sluice::route {

struct KeyColumn {
  std::string_view text;
  std::span<const uint16_t> sizes;  // their sum is text.size()
};

// Makes plain entries (one permit each) of keys that lie one after the other. Returns where the
// next key begins.
inline const char* fill_entries(std::span<api::Entry> entries, const char* key,
                                std::span<const uint16_t> sizes) noexcept {
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {.key_data = key, .key_bytes = sizes[i]};
    key += sizes[i];
  }
  return key;
}

}  // namespace sluice::route
