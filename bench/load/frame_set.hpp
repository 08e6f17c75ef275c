// All frames of a run, encoded before the clock starts and sent over and over.
// Shape:  end to end in one buffer, the ids 1, 2, 3, ... in that order, so that a run of frames
//         is one send, and an answer's id tells its frame.
// Lives:  immutable; what it returns lives as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/load/key_sequence.hpp"
#include "bench/load/options.hpp"

namespace sluice::load {

// The limit that every key needs for `--denied-share`, and the cost that is asked for in the
// entries to be denied: once granted, it leaves no room for a second one in the same window, but
// for half a billion of cost 1. So a denial costs the server what any denial does.
inline constexpr uint32_t key_permits = 1'000'000'000;
inline constexpr uint32_t denied_cost = key_permits / 2 + 1;

class FrameSet {
 public:
  // At least `frames_min` frames.
  FrameSet(const Options& options, size_t frames_min);
  // Of these questions; without any there are no frames.
  FrameSet(const Options& options, std::vector<Question> questions);

  size_t count() const noexcept { return begin_words_.size() - 1; }
  size_t frame_bytes_max() const noexcept { return frame_bytes_max_; }
  size_t bytes() const noexcept { return words_.size() * sizeof(uint64_t); }

  // Frames [first, last), as they go out.
  std::span<const std::byte> bytes_of(size_t first, size_t last) const noexcept {
    const auto words =
        std::span{words_}.subspan(begin_words_[first], begin_words_[last] - begin_words_[first]);
    return std::as_bytes(words);
  }
  uint32_t entries_of(size_t frame) const noexcept {
    return frame + 1 < count() ? batch_ : last_entries_;
  }

  // Different keys in `frames_count` frames from `first` on, beginning anew behind the last.
  uint64_t distinct_keys(size_t first, uint64_t frames_count) const;

 private:
  uint32_t batch_;
  uint32_t keys_count_;
  uint32_t last_entries_ = 0;
  size_t frame_bytes_max_ = 0;
  std::vector<Question> questions_;
  std::vector<uint64_t> words_;
  std::vector<size_t> begin_words_;  // of each frame, and the end
};

}  // namespace sluice::load
