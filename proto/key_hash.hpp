// Which shard owns a key: the routing hash that Welcome announces, shared by server and clients.
// Flow:   key -> routed part -> XXH3-64 with seed -> multiply-shift -> shard.
// Shape:  of a key with a first non-empty {...}, only the text between the braces counts, so that
//         related keys can be kept together. proto/golden/key_hash.json pins the values.
// Source: XXH3 (xxhash 0.8); the tag rule is Redis Cluster's, but it looks on behind empty braces.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice::proto {

// The part of `key` that decides its shard: the text in the first non-empty {...}, or all of it.
constexpr std::string_view routed_part(std::string_view key) noexcept {
  for (size_t open = key.find('{'); open != key.npos; open = key.find('{', open + 1)) {
    const size_t close = key.find('}', open + 1);
    if (close == key.npos) break;
    if (close > open + 1) return key.substr(open + 1, close - open - 1);
  }
  return key;
}

// Whether there is a '{' at all: most keys have none, and to look for it by memchr costs as much as
// the hash. Keys of 8 to 16 bytes take two words that may overlap.
inline bool has_brace(std::string_view key) noexcept {
  if (key.size() < 8 || key.size() > 16) return key.find('{') != key.npos;
  constexpr uint64_t ones = 0x0101'0101'0101'0101;
  uint64_t words[2];
  std::memcpy(&words[0], key.data(), 8);
  std::memcpy(&words[1], key.data() + key.size() - 8, 8);
  uint64_t found = 0;
  for (uint64_t word : words) {
    word ^= ones * '{';  // a byte is zero now where the brace is
    found |= (word - ones) & ~word;
  }
  return (found & ones << 7) != 0;
}

inline uint64_t routing_hash(std::string_view key, uint64_t seed) noexcept {
  const std::string_view part = has_brace(key) ? routed_part(key) : key;
  return XXH3_64bits_withSeed(part.data(), part.size(), seed);
}

// The hash's upper half picks the shard, by multiply-shift.
constexpr uint32_t owner_shard(uint64_t hash, uint32_t shards_count) noexcept {
  return static_cast<uint32_t>(((hash >> 32) * shards_count) >> 32);
}

}  // namespace sluice::proto
