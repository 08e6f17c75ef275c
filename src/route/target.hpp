// Another shard as Mailboxes addresses it, whatever the transport.
// Flow:   open() and post() in the course of a turn -> flush() at its end.
// Shape:  a RingTarget is a shard of this process, a peer::PeerTarget one of another node. Posting
//         goes through Target; answers return through the ring, from which Mailboxes::receive()
//         takes them, or through the connection to the other node.
// Errors: nothing is dropped: entries are only sent when there is room, and other things wait in
//         the target. Only grants are refused, because their decider can keep them.
// Lives:  one thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/entry.hpp"
#include "route/shard_message.hpp"

namespace sluice::route {

class Target {
 public:
  virtual ~Target() = default;
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Whether open() may be called for a part with so many entries, and so much text.
  virtual bool has_room(uint32_t entries_count, size_t text_bytes) const noexcept = 0;
  // The message for such a part.
  virtual ShardMessage& open(uint32_t entries_count, size_t text_bytes) noexcept = 0;
  // Its entries are all there.
  virtual void end_part() noexcept = 0;

  virtual void post(Notice& notice) noexcept = 0;
  virtual void post(ShardTask task) noexcept = 0;
  virtual void post(Handover&& handover) noexcept = 0;
  // False: the target takes no more in this turn.
  virtual bool post(const api::Grant& grant) noexcept = 0;

  // Sends what was posted, as far as the target takes it. False: something waits.
  virtual bool flush() noexcept = 0;

  // Nothing waits here, and nothing is lent.
  virtual bool idle() const noexcept = 0;
};

}  // namespace sluice::route
