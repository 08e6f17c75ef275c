// Which keys are asked for, in which order, and which of them shall be denied.
// Shape:  `uniform` repeats one random permutation, so that every key comes once before one comes
//         again; `zipf` draws ranks with exponent 0.99 and gives them to keys at random.
// Errors: std::invalid_argument when the keys do not fit into --key-bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/load/options.hpp"

namespace sluice::load {

struct Question {
  uint32_t key = 0;
  bool denied = false;
};

// At least `questions_min` of them, to be asked over and over.
std::vector<Question> key_sequence(const Options& options, size_t questions_min);

// Writes the key's name, which has as many bytes as `out`.
void write_key(uint32_t key, std::span<char> out) noexcept;

// Throws unless `key_bytes` hold that many different names.
void require_key_bytes(uint32_t keys_count, uint32_t key_bytes);

// How many different keys these questions name.
uint64_t count_distinct(std::span<const Question> questions, uint32_t keys_count);

}  // namespace sluice::load
