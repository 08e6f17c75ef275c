// All frames of a stream, encoded before the clock starts and sent over and over.
// Shape:  end to end in one buffer, the ids 1, 2, 3, ... in that order, so that a run of frames
//         is one send, and an answer's id tells its frame.
// Errors: std::invalid_argument when they would take too much memory.
// Lives:  immutable; what it returns lives as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "load/handle_table.hpp"
#include "load/options.hpp"
#include "load/stream.hpp"

namespace sluice::load {

// The limit that every key needs for `--denied-share` by cost, and the cost that is asked for in
// the entries to be denied: once granted, it leaves no room for a second one in the same window,
// but for half a billion of cost 1. So a denial costs the server what any denial does.
inline constexpr uint32_t key_permits = 1'000'000'000;
inline constexpr uint32_t denied_cost = key_permits / 2 + 1;

inline uint32_t cost_of(const Question& question) noexcept {
  return question.denied ? denied_cost : 1;
}

class FrameSet {
 public:
  // With `handles`, of these instead of keys; a stream without questions has no frames.
  FrameSet(const Options& options, const Stream& stream, const HandleTable* handles = nullptr);

  size_t count() const noexcept { return begin_words_.size() - 1; }
  size_t bytes() const noexcept { return words_.size() * sizeof(uint64_t); }

  // Frames [first, last), as they go out.
  std::span<const std::byte> bytes_of(size_t first, size_t last) const noexcept {
    const auto words =
        std::span{words_}.subspan(begin_words_[first], begin_words_[last] - begin_words_[first]);
    return std::as_bytes(words);
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<size_t> begin_words_;  // of each frame, and the end
};

// Of a frame of --batch entries, as any run with these options sends it.
size_t frame_bytes_max(const Options& options);

}  // namespace sluice::load
