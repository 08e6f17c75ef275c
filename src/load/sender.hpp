// One connection of the load: sends the frames of its stream and reads the answers.
// Flow:   Loop decides when; ReplaySender sends frames encoded before, ClientSender
//         sends through the client library.
// Errors: sluicegate::Error when the server hangs up or sends an answer to no request.
#pragma once

#include <cstddef>
#include <cstdint>

#include "load/counters.hpp"

namespace sluice::load {

class Sender {
 public:
  Sender() = default;
  virtual ~Sender() = default;
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Queues the stream's next frame; its latency counts from `from_ns`. Returns its entries, or 0
  // when there is no room.
  virtual uint32_t ask(uint64_t from_ns) = 0;
  // There was no room because the next frame of the stream is still unanswered, maybe on another
  // connection: this sender gets no event when its answer comes.
  virtual bool held_back() const noexcept = 0;
  // Sends the queued bytes; false when the socket takes no more now.
  virtual bool flush() = 0;
  // Reads all answers that have arrived.
  virtual void take_answers(Counters& counters) = 0;
  // Answers have arrived that epoll does not report.
  virtual bool has_answers() const = 0;

  virtual uint32_t frames_in_flight() const noexcept = 0;
  virtual sluicegate::Traffic traffic() const noexcept = 0;
  virtual int native_handle() const noexcept = 0;
  virtual uint32_t epoll_events() const noexcept = 0;
};

}  // namespace sluice::load
