// GET /debug under way: which keys were told, and which come next.
// Shape:  up to `sorted_keys_max` keys are gathered first and told sorted; more are told page by
//         page in table order, each key that lives throughout exactly once.
// Lives:  allocated per GET /debug (not on the request path), at most `walks_max` at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {

struct DebugWalk {
  static constexpr uint32_t sorted_keys_max = 100'000;
  static constexpr uint32_t walks_max = 4;
  static constexpr uint32_t slice_keys = 256;  // gathered or written in one go

  struct Row {
    std::string key;
    api::KeyState state;
  };

  wire::DebugStream stream;
  bool sorted = true;
  bool keep_alive = true;
  bool asked = false;     // a shard owes an answer
  bool gathered = false;  // sorted: every key is in `rows`; else: the last page was told
  uint64_t cursor = 0;
  size_t next_row = 0;
  std::vector<Row> rows;

  void add(std::span<const api::KeyState> keys) {
    for (const api::KeyState& state : keys) rows.push_back({std::string(state.key), state});
  }

  void sort() {
    std::sort(rows.begin(), rows.end(),
              [](const Row& one, const Row& other) { return one.key < other.key; });
  }
};

}  // namespace sluice::session
