// A batch of quota calls on its way to the shards that decide them.
// Flow:   QuotaTasks takes one from its pool -> a session, or the worker itself, fills the batch ->
//         each shard that a call belongs to, one after the other -> back, and to the session: where
//         quotas have changed, when that is durable.
// Lives:  lent to one shard at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "server/node_share.hpp"
#include "server/task_pool.hpp"

namespace sluice::server {

// A call that is ended though it was admitted: a part of it is not confirmed.
struct FailedCall {
  uint32_t place = 0;
  api::QuotaCode code = api::QuotaCode::owner_unreachable;
};

struct QuotaTask {
  std::optional<Asker> asker;  // empty: the worker's own calls; no session waits for the answers
  api::ShardId origin = 0;     // the shard of its calls' tickets
  uint32_t shard = 0;          // the shard that has it, or gets it next
  bool goes_on = false;        // a call may wait, or go on at another shard
  bool may_change = false;     // a call may change a quota: the answers wait for the disk
  uint64_t epoch = 0;          // of the state that has what its calls have changed
  int64_t waits_until_ns = 0;  // for that epoch; of VisitedParts: for a verdict
  bool is_parked = false;      // meanwhile another task has its place
  bool is_of_node = false;     // of a NodeTaskPool
  // Of the round in which other nodes are asked: until when, and its number there. 0: none yet.
  uint32_t visited_round = 0;
  int64_t asks_until_ns = 0;
  uint64_t visits_number = 0;
  api::QuotaBatch batch;
  NodeShare share;  // of other nodes
  std::vector<FailedCall> failed;
};

}  // namespace sluice::server
