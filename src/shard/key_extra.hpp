// What only few keys have: a limit, queue length or window of their own, waiters, many denials, or
// a policy that found no place in PolicyClasses.
// Flow:   made by the first override, waiter, or denial beyond 18 bits; freed as soon as nothing of
//         that is left (KeyStore::schedule_or_free_extra).
// Shape:  taken from a pool; the key's cell holds the index, and the window lies here meanwhile.
#pragma once

#include <cstdint>

#include "base/timer_wheel.hpp"
#include "limiter/policy.hpp"
#include "shard/algorithm.hpp"
#include "shard/key_hash.hpp"
#include "shard/waiter_queue.hpp"

namespace sluice::shard {

struct KeyExtra {
  KeyExtra(const Window& current, const limiter::Policy& by_rules, uint32_t rules,
           const KeyHash& of) noexcept
      : window(current), policy(by_rules), rules_policy(by_rules), rules_version(rules), hash(of) {}

  Window window;
  limiter::Policy policy;        // in force: that of the rules, with what requests have changed
  limiter::Policy rules_policy;  // that of the rules
  uint32_t rules_version;        // of those rules
  KeyHash hash;            // finds the key's slot again, wherever a growing table has moved it
  base::Timer window_end;  // scheduled exactly while there are waiters
  WaiterQueue queue;
};

}  // namespace sluice::shard
