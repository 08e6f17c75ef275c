// A message on its way to another node, and what is left of its answers.
// Lives:  belongs to its PeerTarget; a Link refers to it while it waits for answers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "route/shard_message.hpp"

namespace sluice::peer {

struct Outgoing {
  Outgoing(uint32_t entries_max, std::byte* memory) : message(entries_max, memory) {}

  // While it is under way, an entry without an answer has Verdict::none.
  route::ShardMessage message;
  uint32_t unanswered_count = 0;  // entries
  int64_t opened_ms = 0;          // when its first entry joined
  // Its requests were answered by the policy, because the owner took too long. What the owner still
  // answers reaches nobody, and is not written into the message.
  bool is_given_up = false;
  bool is_delivered = false;
};

}  // namespace sluice::peer
