// A shard with the spans it writes to, asked one entry at a time at a time of the test's choosing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "api/entry.hpp"
#include "shard/key_shard.hpp"

namespace sluice::shard {

struct Ask {
  uint32_t cost = 1;
  bool may_wait = false;
  uint8_t full_flag = 0;  // api::flag: the origin's bound that leaves no ticket
  uint32_t max_requests = api::keep;
  uint32_t max_requests_in_queue = api::keep;
  int64_t window_ms = api::keep_window;
  api::Ticket ticket = api::no_ticket;
  uint32_t wait_ms_max = 0;
};

inline HashSecret test_secret() {
  HashSecret secret;
  uint32_t state = 12'345;
  for (std::byte& byte : secret) {
    state = state * 1'664'525 + 1'013'904'223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return secret;
}

// 10 permits in 1,000 ms, 5 in the queue, 100 keys, 50 waiters.
inline Options test_options() {
  return {.keys_max = 100,
          .waiters_max = 50,
          .key_bytes_max = 64,
          .policy = {.window_ms = 1'000, .max_requests = 10, .max_requests_in_queue = 5},
          .hash_secret = test_secret()};
}

class ShardDriver {
 public:
  explicit ShardDriver(const Options& options = test_options()) : shard(options) {}

  // Without the overrides.
  static api::Entry entry(std::string_view key, const Ask& ask) {
    return {.key_data = key.data(),
            .cost = ask.cost,
            .key_bytes = static_cast<uint16_t>(key.size()),
            .flags = static_cast<uint8_t>(api::flag::wants_details |
                                          (ask.may_wait ? api::flag::may_wait : 0) | ask.full_flag),
            .ticket = ask.ticket,
            .wait_ms_max = ask.wait_ms_max};
  }

  api::Verdict acquire(std::string_view key, const Ask& ask = {}) {
    const api::Overrides overrides{.max_requests = ask.max_requests,
                                   .max_requests_in_queue = ask.max_requests_in_queue,
                                   .window_ms = ask.window_ms};
    api::Entry given = entry(key, ask);
    if (overrides != api::no_overrides) given.given_overrides = &overrides;
    return decide(given);
  }
  api::Verdict look(std::string_view key) {
    api::Entry given = entry(key, {.cost = 0});
    given.op = api::Op::look;
    return decide(given);
  }
  api::Verdict release(std::string_view key, uint32_t cost = 1) {
    api::Entry given = entry(key, {.cost = cost});
    given.op = api::Op::release;
    return decide(given);
  }
  api::Verdict refund(std::string_view key, uint32_t cost, int64_t not_after_ms) {
    api::Entry given = entry(key, {.cost = cost});
    given.op = api::Op::refund;
    given.set_not_after_ms(not_after_ms);
    return decide(given);
  }
  api::Verdict decide(const api::Entry& one) {
    api::Verdict verdict = api::Verdict::none;
    shard.decide(std::span(&one, 1),
                 {.verdicts = {&verdict, 1}, .details = {&detail, 1}, .waiters = {&waiter, 1}},
                 now());
    return verdict;
  }

  void run_due() {
    do {
      shard.run_due(now());
    } while (shard.next_due_ns() <= now_ns);
  }
  void advance_ms(int64_t ms) {
    now_ns += ms * base::ns_per_ms;
    run_due();
  }

  // Ticket and verdict of each grant since the last call.
  std::vector<std::pair<api::Ticket, api::Verdict>> take_grants() {
    std::vector<std::pair<api::Ticket, api::Verdict>> taken;
    for (const api::Grant& grant : shard.grants()) taken.emplace_back(grant.ticket, grant.verdict);
    shard.keep_grants(0);
    return taken;
  }

  base::Now now() const { return {.monotonic_ns = now_ns, .wall_ns = 0}; }
  uint64_t decided(api::Verdict verdict) const {
    return shard.statistics().decisions[static_cast<size_t>(verdict)];
  }

  KeyShard shard;
  int64_t now_ns = 5'000 * base::ns_per_ms;
  api::Detail detail;
  api::WaiterId waiter = api::no_waiter;
};

}  // namespace sluice::shard
