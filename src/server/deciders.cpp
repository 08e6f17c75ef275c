#include "server/deciders.hpp"

namespace sluice::server {
namespace {

quota::Options quota_options(const WorkerOptions& options) noexcept {
  quota::Options quota = options.quota;
  quota.shard = options.sessions.shard;
  quota.shards = options.sessions.shards;
  quota.routing_seed = options.sessions.routing_seed;
  return quota;
}

}  // namespace

Deciders make_deciders(const WorkerOptions& options) {
  return {.keys = std::make_unique<shard::KeyShard>(options.shard),
          .quotas = std::make_unique<quota::QuotaStore>(quota_options(options))};
}

}  // namespace sluice::server
