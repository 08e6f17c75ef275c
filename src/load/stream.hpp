// The entries of one or more connections, cut into frames, and the next frame to send.
// Flow:   key_sequence -> Stream -> Sender, one frame after the other; after the last the first
//         follows again. The frames sent determine which keys were asked.
// Lives:  the entries never change; spans live as long as the stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "load/key_sequence.hpp"

namespace sluice::load {

class Stream {
 public:
  Stream(std::vector<PlannedEntry> planned, uint32_t batch)
      : questions_{std::move(planned)}, batch_{batch} {}

  std::span<const PlannedEntry> planned() const noexcept { return questions_; }
  size_t frames_count() const noexcept { return (questions_.size() + batch_ - 1) / batch_; }
  // Index of a frame's first entry; the last frame may have fewer than the others.
  size_t begin_of(size_t frame) const noexcept { return frame * batch_; }
  std::span<const PlannedEntry> frame(size_t index) const noexcept {
    const size_t begin = begin_of(index);
    return planned().subspan(begin, std::min<size_t>(batch_, questions_.size() - begin));
  }

  // The frame to send next.
  size_t next_frame() const noexcept { return next_frame_; }
  void note_asked() noexcept {
    ++frames_asked_;
    if (++next_frame_ == frames_count()) next_frame_ = 0;
  }
  void note_answered() noexcept { ++frames_answered_; }

  void restart_counters() noexcept {
    first_frame_ = next_frame_;
    frames_asked_ = 0;
    frames_answered_ = 0;
  }
  // At least as many answers as the stream has frames since restart_counters().
  bool every_frame_answered() const noexcept { return frames_answered_ >= frames_count(); }
  // Marks the keys asked since restart_counters().
  void mark_asked_keys(std::vector<bool>& asked) const;

 private:
  std::vector<PlannedEntry> questions_;
  uint32_t batch_;
  size_t next_frame_ = 0;
  size_t first_frame_ = 0;
  uint64_t frames_asked_ = 0;
  uint64_t frames_answered_ = 0;
};

inline void Stream::mark_asked_keys(std::vector<bool>& asked) const {
  const size_t frames = std::min<uint64_t>(frames_asked_, frames_count());
  for (size_t i = 0; i < frames; ++i) {
    for (const PlannedEntry entry : frame((first_frame_ + i) % frames_count())) {
      asked[entry.key] = true;
    }
  }
}

}  // namespace sluice::load
