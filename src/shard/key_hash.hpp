// The secret hash of a key: which bucket it lives in, and the tag that identifies it there.
// Shape:  XXH3-128 with a secret; `tag` is the low half, `position` the top 32 bits of the other,
//         so the two are independent. 96 bits stand for the key: its text is not compared.
// Lives:  hashes and their secret never leave the process; the routing hash is another one
//         (proto/key_hash.hpp).
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/entry.hpp"

namespace sluice::shard {

// XXH3 secret, drawn at start.
using HashSecret = std::array<std::byte, 192>;

using api::KeyHash;

inline KeyHash hash_key(std::string_view key, const HashSecret& secret) noexcept {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret.data(), secret.size());
  return {.tag = hash.low64 != 0 ? hash.low64 : 1,
          .position = static_cast<uint32_t>(hash.high64 >> 32)};
}

}  // namespace sluice::shard
