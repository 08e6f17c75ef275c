// The keys of a GET /debug under way: those that were gathered, and the order to write them in.
// Flow:   add() pages until all is gathered -> the answer as a whole if it is small, else row by
//         row; in table order the rows of a page are written before the next page is asked for.
// Shape:  up to `sorted_keys_max` keys are gathered first and written sorted: every page is sorted
//         when it arrives, and the pages are merged while they are written, so that no step takes
//         long. More keys are written page by page in table order, each key that lives throughout
//         exactly once; a walk that gathers too many keys goes on like that, too.
// Lives:  allocated per GET /debug (not on the request path), at most `walks_max` at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {

class DebugWalk {
  struct Row {
    std::string key;
    api::KeyState state;
  };

  // Rows in the order in which they are written.
  struct Run {
    size_t next;
    size_t end;
  };

  // The order of a heap with the run of the next row in front.
  struct Later {
    const std::deque<Row>& rows;
    bool operator()(const Run& one, const Run& other) const noexcept {
      return rows[other.next].key < rows[one.next].key;
    }
  };

 public:
  static constexpr uint32_t sorted_keys_max = 100'000;
  static constexpr uint32_t walks_max = 4;
  // Gathered, or written, in one go; fewer beside requests that take whole turns.
  static constexpr uint32_t slice_keys = 256;
  static constexpr uint32_t busy_slice_keys = 16;
  static constexpr size_t small_body_bytes = 2'048;

  explicit DebugWalk(const wire::RestDebug& request)
      : prefix_(request.prefix), left_(request.keys_max), pretty_(request.pretty) {}

  // Sets how many keys there are, before the first page is asked for.
  void expect(uint64_t keys_count) noexcept { sorted_ = keys_count <= sorted_keys_max; }

  void add(std::span<const api::KeyState> keys, uint64_t next_cursor) {
    const size_t first = rows_.size();
    for (const api::KeyState& state : keys) {
      if (state.key.starts_with(prefix_)) rows_.push_back({std::string(state.key), state});
    }
    cursor_ = next_cursor;
    gathered_ = next_cursor == 0;
    if (rows_.size() > first) add_run({first, rows_.size()});
    if (sorted_ && !gathered_ && rows_.size() > sorted_keys_max) sorted_ = false;
  }

  bool pretty() const noexcept { return pretty_; }
  bool sorted() const noexcept { return sorted_; }
  uint64_t cursor() const noexcept { return cursor_; }
  // Whether another page has to be asked for before anything more is written.
  bool needs_page() const noexcept { return !gathered_ && left_ > 0 && (sorted_ || runs_.empty()); }
  bool has_row() const noexcept { return left_ > 0 && !runs_.empty(); }

  // The next row to write; it lasts until forget_written().
  const api::KeyState& take_row() {
    Row& row = rows_[runs_.front().next];
    row.state.key = row.key;
    --left_;
    std::ranges::pop_heap(runs_, Later{rows_});
    if (++runs_.back().next == runs_.back().end) {
      runs_.pop_back();
    } else {
      std::ranges::push_heap(runs_, Later{rows_});
    }
    return row.state;
  }

  // Rows that were taken need not be kept any longer.
  void forget_written() noexcept {
    if (runs_.empty()) rows_.clear();
  }

  // Encodes the whole body of a few keys. Nothing, and no change, when it does not fit.
  std::optional<size_t> encode_whole(std::span<std::byte> out) const {
    constexpr size_t row_bytes_min = 128;  // beside the key
    if (rows_.size() * row_bytes_min > out.size()) return {};
    DebugWalk copy = *this;
    wire::DebugStream whole{.pretty = pretty_, .chunked = false};
    size_t bytes_max = 256;
    for (const Row& row : rows_) bytes_max += wire::debug_key_bytes_max(row.key.size());
    std::vector<std::byte> body(bytes_max);
    const std::span<std::byte> all{body};
    size_t size = wire::encode_debug_open(whole, all);
    while (copy.has_row()) {
      size += wire::encode_debug_key(whole, copy.take_row(), all.subspan(size));
    }
    size += wire::encode_debug_tail(whole, all.subspan(size));
    if (size > out.size()) return {};
    std::copy_n(body.begin(), size, out.begin());
    return size;
  }

 private:
  void add_run(Run run) {
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(run.next);
    std::sort(begin, rows_.end(),
              [](const Row& one, const Row& other) { return one.key < other.key; });
    runs_.push_back(run);
    std::ranges::push_heap(runs_, Later{rows_});
  }

  std::string prefix_;
  uint64_t left_;  // keys that may still be written
  bool pretty_;
  bool sorted_ = true;
  bool gathered_ = false;  // the last page was added
  uint64_t cursor_ = 0;
  std::deque<Row> rows_;  // grows without moving
  std::vector<Run> runs_;
};

}  // namespace sluice::session
