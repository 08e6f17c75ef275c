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
#include "load/sender.hpp"
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

class ReplaySender final : public Sender {
 public:
  // `connection` has exchanged Hello and Welcome; the sender uses only its socket.
  ReplaySender(const sluicegate::Connection& connection, Replay& replay, uint32_t window);

  uint32_t ask(uint64_t from_ns) override;
  bool held_back() const noexcept override { return held_back_; }
  bool flush() override;
  void take_answers(Counters& counters) override;
  bool has_answers() const override { return false; }

  uint32_t frames_in_flight() const noexcept override { return in_flight_; }
  sluicegate::Traffic traffic() const noexcept override { return traffic_; }
  int native_handle() const noexcept override { return socket_; }
  uint32_t epoll_events() const noexcept override;

 private:
  void count_answers(Counters& counters);
  void finish_frame(const VerdictTally::Counted& answer, uint64_t at_ns, Counters& counters);

  Replay& replay_;
  int socket_;
  uint32_t window_;
  uint32_t in_flight_ = 0;
  bool held_back_ = false;
  std::span<const std::byte> unsent_;  // frames next to each other in the set
  std::vector<uint64_t> input_;
  size_t input_bytes_ = 0;  // the sender consumes whole frames, so these begin at the front
  sluicegate::Traffic traffic_;
};

}  // namespace sluice::load
