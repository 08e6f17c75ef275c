// What only few keys have: a limit or queue of their own, a line of waiters, many denials.
// Shape:  taken from a pool; the key's slot holds the index, and the window lies here meanwhile.
// Flow:   made by the first override, waiter, or denial beyond 24 bits; given back as soon as
//         nothing of that is left (KeyStore::settle_extra).
#pragma once

#include <cstdint>

#include "base/timer_wheel.hpp"
#include "limiter/fixed_window.hpp"
#include "limiter/policy.hpp"
#include "shard/key_hash.hpp"
#include "shard/waiter_line.hpp"

namespace sluice::shard {

struct KeyExtra {
  KeyExtra(const limiter::FixedWindow& current, const limiter::Policy& own,
           const KeyHash& of) noexcept
      : window(current), policy(own), hash(of) {}

  limiter::FixedWindow window;
  limiter::Policy policy;  // its window is that of all keys
  KeyHash hash;            // finds the key's slot again, wherever a growing table has moved it
  base::Timer window_end;  // scheduled exactly while somebody waits
  WaiterLine line;
};

}  // namespace sluice::shard
