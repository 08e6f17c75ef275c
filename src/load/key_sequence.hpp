// The order in which a run asks for keys, which of them are new to the server, and which it shall
// deny.
// Flow:   key_sequence -> Stream. The load tool takes all permits of the denied keys before the
//         clock starts, so that every entry has the same form; with few keys it denies
//         entries by their cost instead.
// Shape:  `uniform` repeats one random permutation, so that every key occurs once before any
//         repeats; `zipf` draws ranks with exponent 0.99 and assigns them to keys at random.
//         With routing, each shard has a sequence of its own keys only. New keys have the numbers
//         behind the others, and come evenly over the whole run of an open loop.
// Errors: std::invalid_argument when the keys do not fit into --key-bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/options.hpp"

namespace sluice::load {

struct PlannedEntry {
  uint32_t key = 0;
  bool denied = false;
};

// How the tool meets --denied-share: by keys without permits, or by entries that cost too much.
bool denied_by_key(const Options& options) noexcept;
bool denied_by_cost(const Options& options) noexcept;

// With fewer keys, each gets so many entries that it would use up its permits in a long window.
inline constexpr uint32_t few_keys = 100;

// Throws when the other options do not allow --new-keys.
void check_new_keys(const Options& options);

// At least `entries_min` entries, which the run repeats.
std::vector<PlannedEntry> key_sequence(const Options& options, size_t entries_min);

// How a server assigns keys to shards, from its Welcome.
struct Routing {
  uint64_t seed = 0;
  uint32_t shards = 1;
};

// The same entries split by the shard that owns their keys, each part in its order and repeated
// as a whole until it has `entries_min`. A shard that owns no key has none.
std::vector<std::vector<PlannedEntry>> routed_sequences(const Options& options, size_t entries_min,
                                                        const Routing& routing);

// Repeats the entries until there are `entries_min`; an empty vector stays empty.
void repeat(std::vector<PlannedEntry>& planned, size_t entries_min);

// The shard that owns each key.
std::vector<uint32_t> owners_of(uint32_t keys_count, uint32_t key_bytes, const Routing& routing);

// Writes the key's name into all bytes of `out`.
void write_key(uint32_t key, std::span<char> out) noexcept;

// Throws unless names of `key_bytes` can name `keys_count` different keys.
void require_key_bytes(uint32_t keys_count, uint32_t key_bytes);

}  // namespace sluice::load
