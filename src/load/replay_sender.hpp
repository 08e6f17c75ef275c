// Sends frames that were encoded before the clock started, and counts the verdicts in place.
// Shape:  the frames of a stream go out in order over any of its senders that has room, so a key
//         repeats only after all others of the stream were sent. An unanswered frame is never sent
//         again: the senders wait for its answer.
// Errors: see sender.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "load/frame_set.hpp"
#include "load/socket_sender.hpp"
#include "load/stream.hpp"

namespace sluice::load {

// A stream's frames, and which of them are in flight; shared by the senders of the stream.
struct Replay {
  Replay(Stream& of_stream, FrameSet encoded)
      : stream{of_stream}, frames{std::move(encoded)}, sent_from_ns(frames.count(), 0) {}

  Stream& stream;
  FrameSet frames;
  std::vector<uint64_t> sent_from_ns;  // of each frame; 0: not in flight
};

class ReplaySender final : public SocketSender {
 public:
  // `connection` has exchanged Hello and Welcome; the sender uses only its socket.
  ReplaySender(const sluicegate::Connection& connection, Replay& replay, uint32_t window);

  uint32_t ask(uint64_t from_ns) override;
  bool held_back() const noexcept override { return held_back_; }
  void take_answers(Counters& counters) override;

 private:
  void count_answers(Counters& counters);
  void finish_frame(const VerdictTally::Counted& answer, uint64_t at_ns, Counters& counters);

  Replay& replay_;
  bool held_back_ = false;
  std::vector<uint64_t> input_;
  size_t input_bytes_ = 0;  // the sender consumes whole frames, so these begin at the front
};

}  // namespace sluice::load
