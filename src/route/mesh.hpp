// What the shards of one process share: a mailbox for every ordered pair of them, and for each a
// doorbell and the list of those that have sent it something.
// Shape:  a mailbox is two rings. Messages go out through one and return through the other, so
//         requests can never stand in the way of replies; there are as many messages as places.
// Errors: an origin that has no message left keeps what it has to send, and reads less.
// Lives:  made before any worker, destroyed after the last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mapped_region.hpp"
#include "route/doorbell.hpp"
#include "route/ring.hpp"
#include "route/senders.hpp"
#include "route/shard_message.hpp"

namespace sluice::route {

struct MeshOptions {
  uint32_t shards = 1;
  uint32_t messages = 0;      // bound of those under way from one shard to another; 0: by `shards`
  uint32_t entries_max = 0;   // with which a message is full; 0: by `shards`
  uint64_t routing_seed = 0;  // decides which shard owns a key
};

class Mailbox {
 public:
  static size_t memory_bytes(uint32_t messages_max, uint32_t entries_max) noexcept {
    return messages_max * ShardMessage::memory_bytes(entries_max);
  }

  // `memory`, of memory_bytes(), reads as zero, and outlives the mailbox.
  Mailbox(uint32_t messages_max, uint32_t entries_max, std::byte* memory)
      : requests(messages_max), replies(messages_max) {
    const size_t bytes = ShardMessage::memory_bytes(entries_max);
    for (uint32_t i = 0; i < messages_max; ++i) {
      messages.push_back(std::make_unique<ShardMessage>(entries_max, memory + i * bytes));
    }
  }

  Ring<ShardMessage> requests;  // pushed by the origin, popped by the target
  Ring<ShardMessage> replies;   // the other way
  std::vector<std::unique_ptr<ShardMessage>> messages;
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options)
      : options_(with_defaults(options)),
        mailbox_bytes_(Mailbox::memory_bytes(options_.messages, options_.entries_max)),
        memory_(options.shards * (options.shards - 1) * mailbox_bytes_, "messages between shards"),
        doorbells_(options.shards),
        senders_(options.shards) {
    std::byte* memory = memory_.data();
    for (uint32_t from = 0; from < options.shards; ++from) {
      for (uint32_t to = 0; to < options.shards; ++to) {
        mailboxes_.push_back(nullptr);
        if (from == to) continue;
        mailboxes_.back() =
            std::make_unique<Mailbox>(options_.messages, options_.entries_max, memory);
        memory += mailbox_bytes_;
      }
    }
  }

  uint32_t shards_count() const noexcept { return options_.shards; }
  uint64_t routing_seed() const noexcept { return options_.routing_seed; }
  // Entries of one shard's connections that another shard may be deciding.
  uint32_t pair_entries_max() const noexcept { return options_.messages * options_.entries_max; }
  Mailbox& mailbox(uint32_t from, uint32_t to) noexcept {
    return *mailboxes_[from * options_.shards + to];
  }
  uint64_t reserved_bytes() const noexcept { return memory_.size(); }
  Doorbell& doorbell(uint32_t shard) noexcept { return doorbells_[shard]; }
  Senders& senders(uint32_t shard) noexcept { return senders_[shard]; }

 private:
  // Small messages: the target begins with the first while the origin fills the next.
  static MeshOptions with_defaults(MeshOptions options) noexcept {
    if (options.messages == 0) options.messages = std::clamp(128U / options.shards, 2U, 32U);
    if (options.entries_max == 0) {
      options.entries_max = std::clamp(8'192U / options.shards, 32U, 1'024U);
    }
    return options;
  }

  const MeshOptions options_;
  const size_t mailbox_bytes_;
  const base::MappedRegion memory_;
  std::vector<Doorbell> doorbells_;
  std::vector<Senders> senders_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace sluice::route
