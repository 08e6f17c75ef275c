// One connection of the load: asks the frames of its stream, and takes the answers.
// Flow:   Loop decides when; ReplayLane sends frames encoded before, ClientLane asks through the
//         client library.
// Errors: sluicegate::Error when the server hangs up or answers what was not asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "load/counters.hpp"

namespace sluice::load {

class Lane {
 public:
  Lane() = default;
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Queues the stream's next frame, whose latency counts from `from_ns`. How many entries it has;
  // 0: there is no room.
  virtual uint32_t ask(uint64_t from_ns) = 0;
  // There was no room because the frame whose turn it is has not been answered yet, maybe on
  // another connection: this lane gets no event of its own.
  virtual bool held_back() const noexcept = 0;
  // Sends what is queued; false when the socket takes no more now.
  virtual bool flush() = 0;
  // Takes all answers that have come.
  virtual void take_answers(Counters& counters) = 0;
  // Answers have come that epoll does not tell of.
  virtual bool has_answers() const = 0;

  virtual uint32_t frames_in_flight() const noexcept = 0;
  virtual sluicegate::Traffic traffic() const noexcept = 0;
  virtual int native_handle() const noexcept = 0;
  virtual uint32_t epoll_events() const noexcept = 0;
};

}  // namespace sluice::load
