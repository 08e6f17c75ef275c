#include "drawn_options.hpp"

#include <algorithm>
#include <array>

#include "base/time.hpp"
#include "pick.hpp"

namespace sluice::simulation {
namespace {

using io::Random;

constexpr int64_t a_day_ms = 24 * 3'600 * 1'000;

}  // namespace

shard::Options draw_shard(Random& random, bool tiny_table) {
  shard::Options options;
  options.keys_max = tiny_table ? 4 + static_cast<uint32_t>(random.below(8)) : 4'000;
  options.matches_min = shard::matches_unbounded;  // the model matches at once
  options.waiters_max = pick<uint32_t, 4>(random, {3, 20, 200, 2'000});
  options.key_bytes_max = pick<uint32_t, 2>(random, {64, 1'024});
  options.handles_max = pick<uint32_t, 5>(random, {1, 7, 64, 100, 3'000});
  options.requests_can_set_rate = !random.chance(0.1);
  options.requests_can_mod_queue = !random.chance(0.1);
  options.requests_can_set_window = !random.chance(0.1);
  options.policy = {.window_ms = pick<int64_t, 5>(random, {10, 13, 50, 100, 1'000}),
                    .max_requests = 1 + static_cast<uint32_t>(random.below(12)),
                    .max_requests_in_queue = static_cast<uint32_t>(random.below(20))};
  for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(random.next());
  return options;
}

session::Options draw_sessions(Random& random, const shard::Options& shard, bool time_outs) {
  session::Options options;
  options.key_bytes_max = shard.key_bytes_max;
  options.waiters_max = shard.waiters_max;
  options.handles_max = shard.handles_max;
  options.wait_ms_max = random.chance(0.3) ? 1 + static_cast<uint32_t>(random.below(1'000)) : 0;
  options.requests_can_set_rate = shard.requests_can_set_rate;
  options.requests_can_mod_queue = shard.requests_can_mod_queue;
  options.requests_can_set_window = shard.requests_can_set_window;
  // Nearly everything waits for its turn then, and is read when that comes.
  if (random.chance(0.5)) {
    options.turn_work = 1 + static_cast<int64_t>(random.below(20'000));
    options.held_input_bytes = random.below(2'000);
  }
  const bool logs = random.chance(0.1);
  options.access_log = {.of_2xx = logs, .of_4xx = logs, .of_5xx = true};
  if (time_outs) {
    options.header_timeout_ms = pick<int64_t, 4>(random, {20, 200, 1'000, 10'000});
    options.idle_timeout_ms = pick<int64_t, 4>(random, {0, 20, 200, 2'000});
    options.send_timeout_ms = pick<int64_t, 3>(random, {20, 500, 5'000});
    options.linger_ms = pick<int64_t, 3>(random, {1, 50, 2'000});
  } else {
    options.header_timeout_ms = a_day_ms;
    options.idle_timeout_ms = 0;
    options.send_timeout_ms = a_day_ms;
    options.linger_ms = a_day_ms;
  }
  return options;
}

quota::Options draw_quotas(Random& random) {
  quota::Options options;
  options.subjects_max = pick<uint32_t, 3>(random, {24, 64, 1'000});
  options.reservations_max = pick<uint32_t, 4>(random, {3, 20, 100, 2'000});
  options.waiters_max = pick<uint32_t, 3>(random, {2, 20, 500});
  options.name_seed = random.next();
  options.id_seed = options.name_seed;
  options.adopt_work = 1 + options.name_seed % 64;  // a book takes many turns
  // A step must be one call, because the clients' books see its result only; that many small steps
  // have the same result is tested by tests/property/quota_step_test.cpp.
  options.step_work = 1'000'000'000;
  return options;
}

io::SimOptions draw_io(Random& random, bool greedy) {
  io::SimOptions options;
  options.receive_buffers = pick<uint32_t, 4>(random, {1, 2, 8, 64});
  options.receive_buffer_bytes = pick<uint32_t, 5>(random, {8, 64, 256, 4'096, 32'768});
  options.peer_window_bytes = pick<uint32_t, 4>(random, {16, 512, 8'192, 65'536});
  if (greedy) {
    options.receive_buffer_bytes = std::max(options.receive_buffer_bytes, 4'096U);
    options.peer_window_bytes = std::max(options.peer_window_bytes, 8'192U);
  }
  // So few that clients wait for a slot, and that moves find none.
  if (random.chance(0.2)) options.sockets_max = 2 + static_cast<uint32_t>(random.below(6));
  options.turn_ns_max = pick<int64_t, 4>(random, {0, 100'000, 2'000'000, 20'000'000});
  options.wait_ns_max = 10'000 + static_cast<int64_t>(random.below(5'000'000));
  options.clock_jump_ns_max =
      pick<int64_t, 3>(random, {5 * base::ns_per_ms, base::ns_per_s, 10 * base::ns_per_s});
  options.start.monotonic_ns = static_cast<int64_t>(random.below(100 * base::ns_per_s));
  return options;
}

std::vector<std::string> draw_keys(Random& random) {
  std::vector<std::string> keys;
  const uint64_t count = 1 + random.below(24);
  for (uint64_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
  keys.push_back("user x/y");
  keys.push_back(std::string(60, 'l'));
  return keys;
}

route::MeshOptions draw_mesh(Random& random, uint32_t shards) {
  return {.shards = shards,
          .messages = pick<uint32_t, 4>(random, {1, 1, 2, 8}),
          .entries_max = pick<uint32_t, 4>(random, {1, 3, 50, 4'096}),
          .routing_seed = random.next()};
}

std::vector<policy::Rule> draw_rules(Random& random) {
  std::vector<policy::Rule> rules(random.below(4));
  for (policy::Rule& rule : rules) {
    rule.pattern = pick<const char*, 5>(random, {".*", "key[0-3]$", "^key1", "x", "key2"});
    rule.is_regex = rule.pattern != "key2";
    if (random.chance(0.7)) rule.max_requests = 1 + static_cast<uint32_t>(random.below(12));
    if (random.chance(0.5)) rule.max_requests_in_queue = static_cast<uint32_t>(random.below(20));
    if (random.chance(0.4)) rule.window_ms = pick<int64_t, 4>(random, {10, 13, 100, 1'000});
  }
  return rules;
}

}  // namespace sluice::simulation
