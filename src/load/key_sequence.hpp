// Which keys are asked for, in which order, and which of them shall be denied.
// Flow:   key_sequence -> Stream. Keys to be denied are used up before the clock starts, so that
//         every question is a plain one; where keys are too few to share out, questions are denied
//         by their cost instead.
// Shape:  `uniform` repeats one random permutation, so that every key comes once before one comes
//         again; `zipf` draws ranks with exponent 0.99 and gives them to keys at random.
//         Routed, each shard has a sequence of its own, of its keys alone.
// Errors: std::invalid_argument when the keys do not fit into --key-bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/options.hpp"

namespace sluice::load {

struct Question {
  uint32_t key = 0;
  bool denied = false;
};

// How --denied-share is met: by keys that have no permits left, or by questions that cost too much.
bool denied_by_key(const Options& options) noexcept;
bool denied_by_cost(const Options& options) noexcept;

// With fewer, each has so many questions that it would use up its permits in a long window.
inline constexpr uint32_t few_keys = 100;

// At least `questions_min` of them, to be asked over and over.
std::vector<Question> key_sequence(const Options& options, size_t questions_min);

// How a server spreads its keys, as its Welcome tells.
struct Routing {
  uint64_t seed = 0;
  uint32_t shards = 1;
};

// The same questions by the shard that owns their keys, each part in its order and repeated as a
// whole until it is `questions_min` long. A shard that owns no key has none.
std::vector<std::vector<Question>> routed_sequences(const Options& options, size_t questions_min,
                                                    const Routing& routing);

// Appends the questions to themselves until there are `questions_min`; none stay none.
void repeat(std::vector<Question>& questions, size_t questions_min);

// The shard that owns each key.
std::vector<uint32_t> owners_of(uint32_t keys_count, uint32_t key_bytes, const Routing& routing);

// Writes the key's name, which has as many bytes as `out`.
void write_key(uint32_t key, std::span<char> out) noexcept;

// Throws unless `key_bytes` hold that many different names.
void require_key_bytes(uint32_t keys_count, uint32_t key_bytes);

}  // namespace sluice::load
