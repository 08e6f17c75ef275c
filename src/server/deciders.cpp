#include "server/deciders.hpp"

#include <stdexcept>
#include <utility>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "proto/reservation_id.hpp"
#include "route/ownership.hpp"
#include "server/visited_waiters.hpp"

namespace sluice::server {

quota::Options store_options(const WorkerOptions& options) noexcept {
  quota::Options quota = options.quota;
  quota.shard = options.sessions.shard;
  quota.shards = options.sessions.shards;
  quota.routing_seed = options.sessions.routing_seed;
  quota.keeps_state = options.state.schedule != nullptr;
  const route::Ownership ownership = options.fleet.ownership();
  if (ownership.has_peers()) {
    constexpr uint32_t nodes_of_call_max = limits::call_subjects_max;
    quota.node_slot = proto::reservation_id::slot_of_node(ownership.own_node());
    quota.nodes_count = ownership.nodes_count();
    quota.node_part_slack_ms += nodes_of_call_max * static_cast<uint32_t>(options.fleet.timeout_ms);
    quota.node_renewal_ns = waiter_renewal_timeouts * options.fleet.timeout_ms * base::ns_per_ms;
  }
  return quota;
}

Deciders make_deciders(const WorkerOptions& options) {
  return {.keys = std::make_unique<shard::KeyShard>(options.shard),
          .quotas = std::make_unique<quota::QuotaStore>(store_options(options))};
}

quota::Restored restore(const WorkerOptions& options, quota::QuotaDecider& quotas, base::Now now) {
  if (options.state.source == nullptr) return {};
  quota::Restored restored = options.state.source->restore(quotas, now);
  if (!restored.damage.empty()) throw std::runtime_error(restored.damage);
  return restored;
}

}  // namespace sluice::server
