// The secret hash of a key: which bucket it lives in, and the tag that identifies it there.
// Shape:  `tag` is 64 of 128 bits, `position` 32 of the others, so the two are independent. 96 bits
//         stand for the key: its text is not compared.
//         A key of up to 16 bytes has four rounds of AES, where the processor has the instruction
//         (short_key_hash.hpp); any other one has XXH3-128 with a secret.
// Lives:  hashes and their secret never leave the process; the routing hash is another one
//         (proto/key_hash.hpp).
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "shard/short_key_hash.hpp"

namespace sluice::shard {

inline constexpr size_t long_key_secret_bytes = 192;

// Drawn at start: XXH3's secret, and behind it that of short keys.
using HashSecret = std::array<std::byte, long_key_secret_bytes + ShortKeyHash::secret_bytes>;

using api::KeyHash;

inline KeyHash hash_long_key(std::string_view key, const HashSecret& secret) noexcept {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret.data(), long_key_secret_bytes);
  return {.tag = hash.low64 != 0 ? hash.low64 : 1,
          .position = static_cast<uint32_t>(hash.high64 >> 32)};
}

inline KeyHash hash_key(std::string_view key, const HashSecret& secret) noexcept {
  if (ShortKeyHash::fits(key.size()) && ShortKeyHash::is_available()) [[likely]]
    return ShortKeyHash::hash(key, std::span(secret).last<ShortKeyHash::secret_bytes>());
  return hash_long_key(key, secret);
}

}  // namespace sluice::shard
