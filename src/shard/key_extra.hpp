// What only few keys have: a limit or queue of their own, a line of waiters, many denials, a policy
// that found no place in PolicyClasses.
// Shape:  taken from a pool; the key's slot holds the index, and the window lies here meanwhile.
// Flow:   made by the first override, waiter, or denial beyond 18 bits; given back as soon as
//         nothing of that is left (KeyStore::settle_extra).
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
      : window(current), policy(by_rules), base(by_rules), generation(rules), hash(of) {}

  Window window;
  limiter::Policy policy;  // in force: what the rules say, and what requests have changed in it
  limiter::Policy base;    // what the rules said
  uint32_t generation;     // of those rules
  KeyHash hash;            // finds the key's slot again, wherever a growing table has moved it
  base::Timer window_end;  // scheduled exactly while somebody waits
  WaiterQueue queue;
};

}  // namespace sluice::shard
