// Which of several instances owns a key or a subject: the rule of gocc, shared by server and
// clients, so that instances of both kinds agree.
// Flow:   key -> FNV-1a of 32 bits -> modulo the number of instances -> place in --instance-urls.
// Shape:  of a key the whole text counts, as gocc has it; of a quota's subject the routed part
//         (key_hash.hpp), so that subjects with one {tag} have one owner.
//         proto/golden/node_hash.json pins the values.
// Source: FNV-1a (draft-eastlake-fnv); gocc's hash/fnv of Go's library.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proto/key_hash.hpp"

namespace sluice::proto {

inline constexpr uint32_t fnv1a_32_of_nothing = 2'166'136'261;
inline constexpr uint32_t fnv1a_32_prime = 16'777'619;
constexpr uint32_t fnv1a_32_step(uint32_t hash, char next) noexcept {
  return (hash ^ static_cast<uint8_t>(next)) * fnv1a_32_prime;
}
constexpr uint32_t fnv1a_32(std::string_view text) noexcept {
  uint32_t hash = fnv1a_32_of_nothing;
  for (const char next : text) hash = fnv1a_32_step(hash, next);
  return hash;
}

// Of texts that lie one behind the other from `text` on: the steps of one hash wait for each other,
// those of four do not. More would not find room in the processor's registers.
inline constexpr size_t texts_at_once = 4;
constexpr std::array<uint32_t, texts_at_once> fnv1a_32(
    const char* text, std::span<const uint16_t, texts_at_once> sizes) noexcept {
  std::array<const char*, texts_at_once> texts{};
  size_t common_bytes = sizes[0];
  for (size_t i = 0; i < texts_at_once; ++i) {
    texts[i] = text;
    text += sizes[i];
    common_bytes = std::min<size_t>(common_bytes, sizes[i]);
  }
  std::array<uint32_t, texts_at_once> hashes;
  hashes.fill(fnv1a_32_of_nothing);
  for (size_t byte = 0; byte < common_bytes; ++byte) {
    for (size_t i = 0; i < texts_at_once; ++i) {
      hashes[i] = fnv1a_32_step(hashes[i], texts[i][byte]);
    }
  }
  for (size_t i = 0; i < texts_at_once; ++i) {
    for (size_t byte = common_bytes; byte < sizes[i]; ++byte) {
      hashes[i] = fnv1a_32_step(hashes[i], texts[i][byte]);
    }
  }
  return hashes;
}

// `key` without the white space around it: the text that shards know it by.
constexpr uint32_t key_node(std::string_view key, uint32_t nodes_count) noexcept {
  return fnv1a_32(key) % nodes_count;
}

constexpr uint32_t subject_node(std::string_view subject, uint32_t nodes_count) noexcept {
  return fnv1a_32(routed_part(subject)) % nodes_count;
}

}  // namespace sluice::proto
