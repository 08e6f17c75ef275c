// GET /debug under way: which keys were told, and which come next.
// Flow:   add() pages until all is gathered -> the answer as a whole if it is small, else row by
//         row; in table order what a page brought is told before the next one is asked for.
// Shape:  up to `sorted_keys_max` keys are gathered first and told sorted; more are told page by
//         page in table order, each key that lives throughout exactly once.
// Lives:  allocated per GET /debug (not on the request path), at most `walks_max` at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
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
  static constexpr size_t small_body_bytes = 2'048;

  struct Row {
    std::string key;
    api::KeyState state;
  };

  wire::DebugStream stream;
  wire::ReplyHead head;
  std::string prefix;     // keys that begin otherwise are left out
  uint32_t keys_max = 0;  // told at most
  bool sorted = true;
  bool asked = false;     // a shard owes an answer
  bool streams = false;   // the head is written
  bool gathered = false;  // sorted: every key is in `rows`; else: the last page was told
  uint64_t cursor = 0;
  std::vector<Row> rows;
  size_t next_row = 0;
  uint64_t rows_before = 0;  // that were forgotten

  void add(std::span<const api::KeyState> keys, uint64_t next_cursor) {
    for (const api::KeyState& state : keys) {
      if (state.key.starts_with(prefix)) rows.push_back({std::string(state.key), state});
    }
    cursor = next_cursor;
    const bool enough = rows_before + rows.size() >= keys_max;
    gathered = next_cursor == 0 || (enough && !sorted);
    if (!gathered) return;
    if (sorted) {
      std::sort(rows.begin(), rows.end(),
                [](const Row& one, const Row& other) { return one.key < other.key; });
    }
    if (enough) rows.resize(keys_max - rows_before);
  }

  const api::KeyState& take_row() {
    Row& row = rows[next_row++];
    row.state.key = row.key;
    return row.state;
  }

  void forget_rows() {
    rows_before += rows.size();
    rows.clear();
    next_row = 0;
  }

  // The whole body; nothing, and as if not asked, when it does not fit.
  std::optional<size_t> encode_whole(std::span<std::byte> out) const {
    // In a row there is at least this much beside the key.
    constexpr size_t row_bytes_min = 128;
    if (rows.size() * row_bytes_min > out.size()) return {};
    size_t bytes_max = 256;
    for (const Row& row : rows) bytes_max += wire::debug_key_bytes_max(row.key.size());
    std::vector<std::byte> body(bytes_max);
    wire::DebugStream whole{.pretty = stream.pretty, .chunked = false};
    const std::span<std::byte> all{body};
    size_t size = wire::encode_debug_open(whole, all);
    for (const Row& row : rows) {
      api::KeyState state = row.state;
      state.key = row.key;
      size += wire::encode_debug_key(whole, state, all.subspan(size));
    }
    size += wire::encode_debug_tail(whole, all.subspan(size));
    if (size > out.size()) return {};
    std::copy_n(body.begin(), size, out.begin());
    return size;
  }
};

}  // namespace sluice::session
