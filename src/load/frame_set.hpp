// All frames of a stream, encoded before the clock starts and sent over and over.
// Shape:  end to end in one buffer, the ids 1, 2, 3, ... in that order, so that a run of frames
//         is one send, and an answer's id identifies its frame.
// Errors: std::invalid_argument when the frames would take too much memory.
// Lives:  immutable; returned spans live as long as the set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "load/handle_table.hpp"
#include "load/options.hpp"
#include "load/stream.hpp"

namespace sluice::load {

// The limit that every key needs for `--denied-share` by cost, and the cost of the entries that
// the server shall deny: one such entry leaves no room for a second one in the same window, but
// for half a billion of cost 1. So each of these denials costs the server what any denial does.
inline constexpr uint32_t key_permits = 1'000'000'000;
inline constexpr uint32_t denied_cost = key_permits / 2 + 1;

inline uint32_t cost_of(const PlannedEntry& entry) noexcept {
  return entry.denied ? denied_cost : 1;
}

class FrameSet {
 public:
  // With `handles` the frames name handles instead of keys; a stream without entries has none.
  FrameSet(const Options& options, const Stream& stream, const HandleTable* handles = nullptr);

  size_t count() const noexcept { return begin_words_.size() - 1; }
  size_t bytes() const noexcept { return words_.size() * sizeof(uint64_t); }

  // The encoded bytes of frames [first, last).
  std::span<const std::byte> bytes_of(size_t first, size_t last) const noexcept {
    const auto words =
        std::span{words_}.subspan(begin_words_[first], begin_words_[last] - begin_words_[first]);
    return std::as_bytes(words);
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<size_t> begin_words_;  // of each frame, then the end of the last
};

// The size of a frame of --batch entries in any run with these options.
size_t frame_bytes_max(const Options& options);

}  // namespace sluice::load
