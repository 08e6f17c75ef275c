// What the shards of one process share: a mailbox for every ordered pair of them, a doorbell each.
// Shape:  a mailbox is two rings. Messages go out through one and return through the other, so
//         requests can never stand in the way of replies; there are as many messages as places.
// Errors: an origin that has no message left keeps what it has to send, and reads less.
// Lives:  made before any worker, destroyed after the last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "route/doorbell.hpp"
#include "route/ring.hpp"
#include "route/shard_message.hpp"

namespace sluice::route {

struct MeshOptions {
  uint32_t shards = 1;
  uint32_t messages = 0;      // bound of those under way from one shard to another; 0: by `shards`
  uint32_t entries_max = 0;   // in one message; 0: by `shards`
  uint64_t routing_seed = 0;  // decides which shard owns a key
};

class Mailbox {
 public:
  Mailbox(uint32_t messages_max, uint32_t entries_max)
      : requests(messages_max), replies(messages_max) {
    for (uint32_t i = 0; i < messages_max; ++i) {
      messages.push_back(std::make_unique<ShardMessage>(entries_max));
    }
  }

  Ring<ShardMessage> requests;  // pushed by the origin, popped by the target
  Ring<ShardMessage> replies;   // the other way
  std::vector<std::unique_ptr<ShardMessage>> messages;
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options) : options_(options), doorbells_(options.shards) {
    // Some megabytes for each shard, whatever their number.
    const uint32_t messages =
        options.messages != 0 ? options.messages : std::clamp(128U / options.shards, 2U, 8U);
    const uint32_t entries =
        options.entries_max != 0 ? options.entries_max : std::max(32U, 8'192U / options.shards);
    for (uint32_t from = 0; from < options.shards; ++from) {
      for (uint32_t to = 0; to < options.shards; ++to) {
        mailboxes_.push_back(from == to ? nullptr : std::make_unique<Mailbox>(messages, entries));
      }
    }
  }

  uint32_t shards_count() const noexcept { return options_.shards; }
  uint64_t routing_seed() const noexcept { return options_.routing_seed; }
  Mailbox& mailbox(uint32_t from, uint32_t to) noexcept {
    return *mailboxes_[from * options_.shards + to];
  }
  uint64_t reserved_bytes() const noexcept {
    uint64_t bytes = 0;
    for (const auto& mailbox : mailboxes_) {
      if (mailbox == nullptr) continue;
      for (const auto& message : mailbox->messages) bytes += message->reserved_bytes();
    }
    return bytes;
  }
  Doorbell& doorbell(uint32_t shard) noexcept { return doorbells_[shard]; }

 private:
  MeshOptions options_;
  std::vector<Doorbell> doorbells_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace sluice::route
