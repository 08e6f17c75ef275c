// Compares texts whose length is known only at run time, and mostly 8 to 16 bytes. memcmp() would
// be a call for each, which takes longer than to compare so short a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice::base {

[[gnu::always_inline]] inline bool is_same_text(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  if (a.size() < 8 || a.size() > 16) return a == b;
  const auto word_at = [](std::string_view text, size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    return word;
  };
  // Two words that may overlap.
  const size_t last = a.size() - sizeof(uint64_t);
  return word_at(a, 0) == word_at(b, 0) && word_at(a, last) == word_at(b, last);
}

}  // namespace sluice::base
