// Another shard as an Mailboxes addresses it, whatever the transport.
// Flow:   queue() and post() in the course of a turn -> flush() at its end.
// Shape:  RingTarget is the only implementation: a shard of this process. Posting goes through
//         Target; answers return through the ring, from which Mailboxes::receive() takes them.
// Errors: nothing is dropped: what a target cannot take waits in it. Only grants are refused,
//         because their decider can keep them.
// Lives:  one thread only.
#pragma once

#include <cstdint>
#include <span>

#include "api/entry.hpp"
#include "route/entry_queue.hpp"
#include "route/shard_message.hpp"

namespace sluice::route {

// The node and shard that a key belongs to. Every node is this one today.
struct Owner {
  uint16_t node = 0;
  api::ShardId shard = 0;
  bool operator==(const Owner&) const = default;
};

class Target {
 public:
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Queues an entry of the book, by its slot. Not virtual, since every such entry passes here.
  void queue(uint32_t slot) noexcept { entries_.push(slot); }

  virtual void post(Notice& notice) noexcept = 0;
  virtual void post(ShardTask task) noexcept = 0;
  virtual void post(Handover&& handover) noexcept = 0;
  // False: the target takes no more in this turn.
  virtual bool post(const api::Grant& grant) noexcept = 0;

  // Sends what was posted, as far as the target takes it.
  virtual void flush() noexcept = 0;

  // Nothing waits here, and nothing is lent.
  virtual bool idle() const noexcept = 0;

 protected:
  explicit Target(std::span<uint32_t> next) noexcept : entries_(next) {}

  EntryQueue entries_;
};

}  // namespace sluice::route
