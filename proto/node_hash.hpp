// Which of several instances owns a key or a subject: the rule of gocc, shared by server and
// clients, so that instances of both kinds agree.
// Flow:   key -> FNV-1a of 32 bits -> modulo the number of instances -> place in --instance-urls.
// Shape:  of a key the whole text counts, as gocc has it; of a quota's subject the routed part
//         (key_hash.hpp), so that subjects with one {tag} have one owner.
//         proto/golden/node_hash.json pins the values.
// Source: FNV-1a (draft-eastlake-fnv); gocc's hash/fnv of Go's library.
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/key_hash.hpp"

namespace sluice::proto {

constexpr uint32_t fnv1a_32(std::string_view text) noexcept {
  uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619;
  return hash;
}

// `key` without the white space around it: the text that shards know it by.
constexpr uint32_t key_node(std::string_view key, uint32_t nodes_count) noexcept {
  return fnv1a_32(key) % nodes_count;
}

constexpr uint32_t subject_node(std::string_view subject, uint32_t nodes_count) noexcept {
  return fnv1a_32(routed_part(subject)) % nodes_count;
}

}  // namespace sluice::proto
