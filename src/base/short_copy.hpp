// Copies a text whose length is known only at run time, and mostly short. memcpy() would be a call
// for each, which takes longer than to copy a short key.
#pragma once

#include <cstddef>
#include <cstring>

namespace sluice::base {

// `from` may be null if there are no bytes.
[[gnu::always_inline]] inline void copy_short(char* to, const char* from, size_t bytes) noexcept {
  // Two moves that may overlap.
  if (bytes >= 8 && bytes <= 16) [[likely]] {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 16 && bytes <= 32) {
    std::memcpy(to, from, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace sluice::base
