// The deciders of a worker's shard: one for keys and one for quotas.
// Flow:   make_deciders(), on the worker's thread, so that memory is taken near its core ->
//         restore() what an earlier start has left -> Worker. A test wraps them first, to check
//         every call.
// Errors: make_deciders() and restore() throw when memory cannot be had, restore() also when the
//         state cannot be read.
#pragma once

#include <memory>

#include "quota/quota_decider.hpp"
#include "server/worker_options.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

struct Deciders {
  std::unique_ptr<shard::KeyDecider> keys;
  std::unique_ptr<quota::QuotaDecider> quotas;
};

// The options of the worker's store of quotas.
quota::Options store_options(const WorkerOptions& options) noexcept;

// The deciders that are shipped, empty: the worker passes them their first rules.
Deciders make_deciders(const WorkerOptions& options);

// Before the worker has them.
quota::Restored restore(const WorkerOptions& options, quota::QuotaDecider& quotas, base::Now now);

}  // namespace sluice::server
