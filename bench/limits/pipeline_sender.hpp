// Sends prepared frames over one connection whose replies come in the order of the frames.
// Flow:   load::Loop decides when -> ask() -> flush() -> ... -> take_answers() -> Replies counts
//         and checks them -> the latency of each frame whose last reply has come.
// Shape:  the frames lie end to end and go round, so that a run of them is one send; every frame
//         has the same number of items, and every item one reply.
// Errors: sluicegate::ConnectionLost; std::runtime_error for a wrong reply.
// Lives:  the socket's owner and the frames outlive it; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "load/socket_sender.hpp"

namespace sluice::limits_bench {

// Frames end to end.
class Frames {
 public:
  explicit Frames(uint32_t items_per_frame) : items_per_frame_{items_per_frame} {}

  void append(std::span<const std::byte> frame) {
    bytes_.insert(bytes_.end(), frame.begin(), frame.end());
    ends_.push_back(bytes_.size());
  }

  size_t count() const noexcept { return ends_.size(); }
  uint32_t items_per_frame() const noexcept { return items_per_frame_; }
  std::span<const std::byte> frame(size_t index) const noexcept {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::span{bytes_}.subspan(begin, ends_[index] - begin);
  }

 private:
  uint32_t items_per_frame_;
  std::vector<std::byte> bytes_;
  std::vector<size_t> ends_;
};

// The replies on one connection.
class Replies {
 public:
  Replies() = default;
  virtual ~Replies() = default;
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  // Consumes what was received; returns how many replies ended in it. Throws for a wrong one.
  virtual uint64_t take(std::span<const std::byte> received) = 0;
};

class PipelineSender final : public load::SocketSender {
 public:
  // Begins with `first_frame`; never has more than `window` frames in flight.
  PipelineSender(int socket, const Frames& frames, size_t first_frame, uint32_t window,
                 std::unique_ptr<Replies> replies);

  uint32_t ask(uint64_t from_ns) override;
  bool held_back() const noexcept override { return false; }
  void take_answers(load::Counters& counters) override;

 private:
  void finish_frames(uint64_t at_ns, load::Counters& counters);

  const Frames& frames_;
  size_t next_frame_;
  std::unique_ptr<Replies> replies_;
  std::vector<uint64_t> from_ns_;  // of the frames in flight, a ring of `window` places
  uint64_t frames_asked_ = 0;
  uint64_t items_answered_ = 0;  // of the oldest frame in flight, and of those behind it
  std::vector<std::byte> input_;
};

}  // namespace sluice::limits_bench
