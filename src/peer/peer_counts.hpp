// The counts of one other node for /metrics: those of one worker, or the sum of all workers.
#pragma once

#include <cstdint>

namespace sluice::peer {

struct PeerCounts {
  uint32_t links_up = 0;
  uint32_t links_wanted = 0;       // one to each of its shards; 1 to a gocc, or while it is unknown
  uint64_t forwarded_entries = 0;  // sent to the owner
  uint64_t failed_entries = 0;     // answered by the failure policy
  uint64_t late_answers = 0;       // entries whose answer came after that
  uint64_t links_lost = 0;
  uint32_t rules_differ = 0;  // 1: its rules are not this node's

  PeerCounts& operator+=(const PeerCounts& other) noexcept {
    links_up += other.links_up;
    links_wanted += other.links_wanted;
    forwarded_entries += other.forwarded_entries;
    failed_entries += other.failed_entries;
    late_answers += other.late_answers;
    links_lost += other.links_lost;
    rules_differ += other.rules_differ;
    return *this;
  }
};

}  // namespace sluice::peer
