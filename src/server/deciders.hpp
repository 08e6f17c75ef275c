// What decides on a worker's shard: its keys and its quotas.
// Flow:   make_deciders(), on the worker's thread, so that memory is taken near its core -> Worker.
//         A test wraps them first, to check what passes.
// Errors: make_deciders() throws when memory cannot be had.
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

// Those that are shipped, empty: the worker gives them their first rules.
Deciders make_deciders(const WorkerOptions& options);

}  // namespace sluice::server
