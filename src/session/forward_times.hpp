// When the last frames of a lane came, by their ids: permits that one of them took are credited
// only to a window that had begun by then.
// Flow:   a Forward comes -> note(); a Refund names it -> find().
// Bounds: the last limits::remembered_forwards of them. A node that returns permits does so as
//         soon as it has the answer, and has fewer frames outstanding on a lane.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/limits.hpp"

namespace sluice::session {

class ForwardTimes {
 public:
  void note(uint64_t id, int64_t now_ms) noexcept {
    frames_[next_ % frames_.size()] = {.id = id, .came_ms = now_ms};
    ++next_;
  }
  // Of the frames with this id the last one: its answer is the one that is known.
  std::optional<int64_t> find(uint64_t id) const noexcept {
    const size_t count = next_ < frames_.size() ? next_ : frames_.size();
    for (size_t back = 1; back <= count; ++back) {
      const Frame& frame = frames_[(next_ - back) % frames_.size()];
      if (frame.id == id) return frame.came_ms;
    }
    return std::nullopt;
  }

 private:
  struct Frame {
    uint64_t id = 0;
    int64_t came_ms = 0;
  };

  std::array<Frame, limits::remembered_forwards> frames_{};
  size_t next_ = 0;
};

}  // namespace sluice::session
