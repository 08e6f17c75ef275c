// A batch of quota calls on its way to the shards that decide them.
// Flow:   QuotaTasks takes one from its pool -> a session, or the worker itself, fills the batch ->
//         each shard that a call belongs to, one after the other -> back, and to the session.
// Lives:  lent to one shard at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "server/task_pool.hpp"

namespace sluice::server {

struct QuotaTask {
  std::optional<Asker> asker;  // empty: the worker's own calls; no session waits for the answers
  api::ShardId origin = 0;     // the shard of its calls' tickets
  uint32_t shard = 0;          // the shard that has it, or gets it next
  bool goes_on = false;        // a call may wait, or go on at another shard
  api::QuotaBatch batch;
};

}  // namespace sluice::server
