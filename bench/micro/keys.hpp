// The keys of this folder's benchmarks, and the secret that hashes them.
// Shape:  every key once, shuffled, end to end, as in a receive buffer. A key is a decimal number
//         padded with zeros; three letters precede it where there is room for twelve digits.
// Units:  bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "shard/key_hash.hpp"

namespace sluice::micro {

inline constexpr size_t key_bytes_typical = 15;

class Keys {
 public:
  explicit Keys(size_t count, size_t key_bytes = key_bytes_typical)
      : key_bytes_(key_bytes), text_(count * key_bytes, 'k') {
    ASSERT(count > 0 && count <= UINT32_MAX);
    std::vector<uint32_t> order(count);
    for (size_t index = 0; index < count; ++index) order[index] = static_cast<uint32_t>(index);
    std::mt19937_64 random(1);
    for (size_t index = count; index > 1; --index) {
      std::swap(order[index - 1], order[random() % index]);
    }
    for (size_t index = 0; index < count; ++index) write(&text_[index * key_bytes], order[index]);
  }

  size_t count() const noexcept { return text_.size() / key_bytes_; }
  size_t key_bytes() const noexcept { return key_bytes_; }
  const char* data(size_t index) const noexcept { return &text_[index * key_bytes_]; }
  std::string_view operator[](size_t index) const noexcept { return {data(index), key_bytes_}; }

 private:
  // Writes digits from the right; the characters left of them stay unchanged.
  void write(char* key, uint32_t number) const noexcept {
    const size_t prefix_bytes = key_bytes_ > 12 ? 3 : 0;
    for (size_t place = key_bytes_; place > prefix_bytes; number /= 10) {
      key[--place] = static_cast<char>('0' + number % 10);
    }
    ASSERT(number == 0);  // otherwise two keys would be equal
  }

  size_t key_bytes_;
  std::vector<char> text_;
};

// The same in every run, so that two of them put the same keys into the same buckets.
inline shard::HashSecret hash_secret() {
  shard::HashSecret secret{};
  std::mt19937_64 random(2);
  for (std::byte& byte : secret) byte = static_cast<std::byte>(random());
  return secret;
}

}  // namespace sluice::micro
