// One shard's counters at one moment, as plain values: what /metrics and /top show, and the number
// of keys.
// Lives:  the worker that owns the counters copies them; the copy may go to another thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/io.hpp"
#include "peer/peer_counts.hpp"
#include "quota/quota_decider.hpp"
#include "server/rate_window.hpp"
#include "shard/key_decider.hpp"
#include "store/writer_statistics.hpp"

namespace sluice::server {

struct WorkerStatistics {
  uint64_t accepted = 0;
  uint64_t refused = 0;          // above --max-connections
  uint64_t accept_failures = 0;  // out of descriptors or memory, or forbidden
  uint64_t moved = 0;            // connections handed over to another shard
  uint64_t blocked = 0;          // times that a session waited for other shards to catch up
  uint64_t force_closed = 0;     // still open when draining took too long
  uint64_t turns = 0;
  uint64_t rules_adopted = 0;  // after its start
};

struct ShardStatistics {
  uint32_t shard_id = 0;
  shard::Statistics shard;
  quota::Statistics quota;
  WorkerStatistics worker;
  io::Statistics io;
  std::string_view io_name;
  Rates rates;
  uint32_t keys = 0;
  uint32_t waiters = 0;
  uint32_t handles = 0;
  uint32_t subjects = 0;
  uint32_t reservations = 0;  // open
  uint32_t quota_waiters = 0;
  uint32_t connections = 0;
  uint64_t drained_entries = 0;      // answered `draining` without being decided
  uint64_t handles_refused = 0;      // keys answered `handles_full`
  uint64_t other_shard_entries = 0;  // entries that another shard decided
  uint64_t wakes = 0;                // of other workers
  uint64_t misrouted_entries = 0;    // of other nodes, but not this node's own
  uint64_t node_calls_dropped = 0;   // owed to other nodes, for lack of room
  bool has_uncut_changes = false;    // of what survives a restart
  int64_t windows_behind_ns = 0;     // since the first call whose window is not durable
};

// What is counted for the whole process.
struct ProcessStatistics {
  uint64_t rules_refused = 0;
  uint64_t log_lines_lost = 0;
  uint64_t quotas_to_hand_over = 0;  // to other nodes
  // Null: no state is kept.
  const store::WriterStatistics* state = nullptr;
  int64_t state_behind_ns = 0;     // since the first change that is not durable
  bool state_is_committed = true;  // everything that was cut
};

// Of another node of the list.
struct NodeStatistics {
  std::string node;  // host and port
  peer::PeerCounts counts;
};

// Copies the counters of its shard, and of the process.
class ShardStatisticsSource {
 public:
  // Adds this shard's to those of other shards; an empty list gets all other nodes.
  virtual void add_node_statistics(std::vector<NodeStatistics>& nodes) const = 0;
  virtual ShardStatistics shard_statistics() const noexcept = 0;
  virtual ProcessStatistics process_statistics() const noexcept = 0;

 protected:
  ~ShardStatisticsSource() = default;
};

}  // namespace sluice::server
