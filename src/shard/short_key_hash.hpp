// The secret hash of a key of at most 16 bytes, with half of XXH3's instructions: such a key is
// one block, which takes four rounds of AES with secret round keys.
// Shape:  secret: 32 bytes, of which a key's length selects the 16 that are XORed with its block,
//         so that equal blocks of two lengths are two keys; then 16 bytes for each round. Among
//         keys of one length the rounds are a permutation: no two share all 128 bits.
//         Two keys that a client chooses without the secret differ by any one difference with a
//         probability of at most 2^-110, so they share the 96 bits that are kept with 2^-78.
// Errors: not every processor has the instruction: ask is_available() first.
// Source: Park, Sung, Lee and Lim, FSE 2003, for the bound of four rounds; Pelican MAC and Go's
//         aeshash for short inputs hashed by rounds of AES.
#pragma once

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "base/assert.hpp"

namespace sluice::shard {

class ShortKeyHash {
 public:
  static constexpr size_t key_bytes_max = 16;
  // 32 bytes in front for what each length takes; then a key for each round.
  static constexpr size_t secret_bytes = 96;
  using Secret = std::span<const std::byte, secret_bytes>;

  // An empty key has no first byte to read.
  static bool fits(size_t key_bytes) noexcept { return key_bytes - 1 < key_bytes_max; }

#if defined(__x86_64__)
  static bool is_available() noexcept {
    return __builtin_cpu_supports("aes") != 0;
  }

  [[gnu::always_inline]] static api::KeyHash hash(std::string_view key, Secret secret) noexcept {
    DEBUG_ASSERT(fits(key.size()));
    __m128i state = _mm_xor_si128(block_of(key), load(&secret[key.size() - 1]));
    for (size_t round_key = 32; round_key < secret_bytes; round_key += 16) {
      state = round(state, load(&secret[round_key]));
    }
    const auto tag = static_cast<uint64_t>(_mm_cvtsi128_si64(state));
    const int position = _mm_cvtsi128_si32(_mm_unpackhi_epi64(state, state));
    return {.tag = tag != 0 ? tag : 1, .position = static_cast<uint32_t>(position)};
  }

 private:
  static __m128i load(const void* from) noexcept {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }

  // By loads that overlap: among keys of one length, each has a block of its own.
  static __m128i block_of(std::string_view key) noexcept {
    const char* data = key.data();
    const size_t bytes = key.size();
    if (bytes >= 8) [[likely]]
      return _mm_set_epi64x(word<int64_t>(data + bytes - 8), word<int64_t>(data));
    const auto length = static_cast<int>(bytes);  // there is room, so also without a secret
    if (bytes >= 4)
      return _mm_set_epi32(0, length, word<int32_t>(data + bytes - 4), word<int32_t>(data));
    const int first_two = word<uint8_t>(data) | word<uint8_t>(data + bytes / 2) << 8;
    return _mm_set_epi32(0, length, word<uint8_t>(data + bytes - 1), first_two);
  }

  template <typename Word>
  static Word word(const char* from) noexcept {
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
  }

  // Assembly, because the intrinsic is for functions compiled for AES alone, and these are not
  // inlined into others.
  static __m128i round(__m128i state, __m128i key) noexcept {
    asm("aesenc %1, %0" : "+x"(state) : "x"(key));
    return state;
  }
#else
  static bool is_available() noexcept {
    return false;
  }
  static api::KeyHash hash(std::string_view, Secret) noexcept {
    return {};
  }
#endif
};

}  // namespace sluice::shard
