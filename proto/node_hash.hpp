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
#include <string_view>

#include "proto/key_hash.hpp"

namespace sluice::proto {

constexpr uint32_t fnv1a_32(std::string_view text) noexcept {
  uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619;
  return hash;
}

// Of several texts: the steps of one hash wait for each other, those of eight do not.
inline constexpr size_t texts_at_once = 8;
constexpr std::array<uint32_t, texts_at_once> fnv1a_32(
    const std::array<std::string_view, texts_at_once>& texts) noexcept {
  size_t common_bytes = texts[0].size();
  for (const std::string_view text : texts) common_bytes = std::min(common_bytes, text.size());
  std::array<uint32_t, texts_at_once> hashes{};
  hashes.fill(2'166'136'261);
  for (size_t i = 0; i < common_bytes; ++i) {
    for (size_t text = 0; text < texts_at_once; ++text) {
      hashes[text] = (hashes[text] ^ static_cast<uint8_t>(texts[text][i])) * 16'777'619;
    }
  }
  for (size_t text = 0; text < texts_at_once; ++text) {
    for (const char c : texts[text].substr(common_bytes)) {
      hashes[text] = (hashes[text] ^ static_cast<uint8_t>(c)) * 16'777'619;
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
