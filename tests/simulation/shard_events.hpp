// Events between several shards, to be counted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::simulation {

enum class ShardEvent : uint8_t {
  other_shard_entry,  // another shard decided an entry
  full_mailbox,       // what is no entry had to wait for a message
  no_message,         // a request had to wait until a shard returned a message
  no_answer_room,     // a request had to wait until a shard had decided earlier ones
  held_session,       // a session was held, because shards were behind or for other room
  slow_shard,         // a worker that had work did not run for a while
  slept,              // a worker slept until an event
  stood_still,        // a shard stood still, a step
  woken_late,         // a worker was woken, and began its turn later
  moved,              // a connection went to another shard
  refunded,           // a grant was undelivered; its window still ran
  refunded_late,      // a grant was undelivered; its window was over
  left_behind,        // a shard decided an entry of a connection that another had ended meanwhile
  turned_meanwhile,   // a worker made a turn while another polled for its messages
  mixed_plain,        // a native frame had keys of several shards, and nothing else
  mixed_costs,        // likewise, and costs
  mixed_terms,        // likewise, and overrides, details or waiting
  mixed_handles,      // likewise, but by handle
  answered_beside,    // a shard stood still, and a client that does not need it had its answers
};
inline constexpr uint32_t shard_events_count = 19;
using ShardCounts = std::array<uint64_t, shard_events_count>;

constexpr std::string_view shard_event_name(ShardEvent event) {
  constexpr std::array<std::string_view, shard_events_count> names = {
      "entry of another shard",
      "full mailbox",
      "request without a message",
      "request without room for its answers",
      "held session",
      "slow shard",
      "slept",
      "stood still",
      "woken late",
      "moved",
      "refunded",
      "refunded late",
      "decided for a connection that has ended",
      "made a turn while another polled",
      "frame for several shards: plain",
      "frame for several shards: costs",
      "frame for several shards: terms",
      "frame for several shards: handles",
      "answered beside a shard that stands still"};
  return names[static_cast<uint32_t>(event)];
}

}  // namespace sluice::simulation
