// The options of a worker; the same for all workers of a group but for the shard's number.
#pragma once

#include <cstdint>
#include <vector>

#include "peer/address_book.hpp"
#include "peer/fleet_options.hpp"
#include "policy/quota_book.hpp"
#include "policy/rule.hpp"
#include "quota/quota_store.hpp"
#include "route/split_book.hpp"
#include "server/state_options.hpp"
#include "session/context.hpp"
#include "shard/key_shard.hpp"

namespace sluice::server {

struct WorkerOptions {
  session::Options sessions;  // its `shard` is this worker's place in the group
  shard::Options shard;
  quota::Options quota;             // its shards and routing are the sessions'
  std::vector<policy::Rule> rules;  // of the configuration file
  policy::QuotaRules quotas;        // likewise
  StateOptions state;
  route::SplitOptions splits;
  peer::FleetOptions fleet;                // other instances, if any
  peer::AddressBook* addresses = nullptr;  // of the fleet
  uint32_t connections_max = 10'000;       // of all workers together
  uint32_t tasks_max = 64;                 // queries and batches of quota calls under way
  int64_t drain_ms = 5'000;
  int64_t return_poll_ns = 0;  // see ReturnPoll; 0: never
};

}  // namespace sluice::server
