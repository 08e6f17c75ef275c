// The names of one frame's keys, written into the same buffer for each frame.
// Lives:  the views of keys() live until the next write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "load/key_sequence.hpp"

namespace sluice::load {

class KeyText {
 public:
  KeyText(uint32_t keys_max, uint32_t key_bytes)
      : key_bytes_{key_bytes}, text_(size_t{keys_max} * key_bytes) {
    for (uint32_t i = 0; i < keys_max; ++i) {
      keys_.emplace_back(text_.data() + size_t{i} * key_bytes, key_bytes);
    }
  }

  void write(size_t index, uint32_t key) noexcept {
    write_key(key, {text_.data() + index * key_bytes_, key_bytes_});
  }
  // The first names, in the order written.
  std::span<const std::string_view> keys(size_t count) const noexcept {
    return std::span{keys_}.first(count);
  }

 private:
  size_t key_bytes_;
  std::vector<char> text_;
  std::vector<std::string_view> keys_;
};

}  // namespace sluice::load
