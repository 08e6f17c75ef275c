#include "fleet_options.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "../pick.hpp"
#include "base/time.hpp"

namespace sluice::simulation {
namespace {

using io::Random;

// While a node pauses, all shards of the others connect again and again.
constexpr uint32_t connections_max = 400;

io::PeerAddress address_of(uint32_t node) {
  io::PeerAddress address{.port = fleet_rest_port};
  address.bytes[15] = static_cast<uint8_t>(node + 1);
  return address;
}

io::SimOptions draw_io(Random& random) {
  io::SimOptions options;
  options.receive_buffers = pick<uint32_t, 3>(random, {2, 8, 64});
  options.receive_buffer_bytes = pick<uint32_t, 3>(random, {256, 4'096, 32'768});
  options.peer_window_bytes = pick<uint32_t, 2>(random, {8'192, 65'536});
  return options;
}

std::vector<std::vector<uint32_t>> draw_lists(Random& random, uint32_t nodes) {
  std::vector<uint32_t> list(nodes);
  std::iota(list.begin(), list.end(), 0U);
  std::vector lists(nodes, list);
  if (random.chance(0.1)) {
    std::rotate(lists.back().begin(), lists.back().begin() + 1, lists.back().end());
  }
  return lists;
}

peer::FleetOptions options_of(const DrawnFleet& fleet, uint16_t node) {
  const std::vector<uint32_t>& list = fleet.lists[node];
  peer::FleetOptions options{
      .instances = {},
      .own_node = static_cast<uint16_t>(std::ranges::find(list, node) - list.begin()),
      .on_failure = fleet.on_failure,
      .timeout_ms = fleet.timeout_ms,
      .silence_ms = fleet.silence_ms,
      .secret = {}};
  for (const uint32_t place : list) options.instances.push_back(fleet.instances[place]);
  return options;
}

}  // namespace

DrawnFleet draw_fleet(Random& random, const FleetKind& kind) {
  using enum base::PeerFailure;
  DrawnFleet fleet;
  fleet.nodes = kind.nodes;
  fleet.has_faults = kind.has_faults;
  fleet.on_failure = pick<base::PeerFailure, 4>(random, {error, closed, local, open});
  fleet.timeout_ms = pick<int64_t, 3>(random, {250, 600, 2'000});
  fleet.silence_ms = pick<int64_t, 3>(random, {300, 900, 1'500});
  fleet.delay_ns_max = pick<int64_t, 3>(random, {0, base::ns_per_ms, 10 * base::ns_per_ms});
  fleet.limit = 1 + static_cast<uint32_t>(random.below(8));
  fleet.window_ms = pick<int64_t, 3>(random, {100, 500, 2'000});
  for (uint32_t node = 0; node < fleet.nodes; ++node) {
    const std::string host = "node" + std::to_string(node);
    fleet.instances.push_back({.url = "http://" + host + ":" + std::to_string(fleet_rest_port),
                               .host = host,
                               .port = fleet_rest_port});
    fleet.addresses.push_back(address_of(node));
  }
  fleet.lists = draw_lists(random, fleet.nodes);
  fleet.io = draw_io(random);
  return fleet;
}

server::WorkerOptions draw_node(Random& random, const DrawnFleet& fleet, uint16_t node) {
  server::WorkerOptions options{
      .sessions = {.waiters_max = 200,
                   .shards = 1 + static_cast<uint32_t>(random.below(fleet_shards_max)),
                   .routing_seed = random.next(),
                   .instance_id = random.next(),
                   .rest_port = fleet_rest_port,
                   .native_port = fleet_native_port},
      .shard = {.keys_max = 20'000, .handles_max = 100, .waiters_max = 200},
      .quota = {.subjects_max = 8,
                .reservations_max = 8,
                .waiters_max = 8,
                .name_seed = random.next(),
                .id_seed = random.next()},
      .splits = {},
      .fleet = options_of(fleet, node),
      .connections_max = connections_max};
  options.sessions.handles_max = options.shard.handles_max;
  options.shard.policy = {
      .window_ms = fleet.window_ms, .max_requests = fleet.limit, .max_requests_in_queue = 1'000};
  for (std::byte& byte : options.shard.hash_secret) byte = static_cast<std::byte>(random.next());
  // Keys that are always denied, so that the places of answers matter.
  policy::Rule none;
  none.pattern = "^none-";
  none.is_regex = true;
  none.max_requests = 0;
  options.rules.push_back(none);
  return options;
}

}  // namespace sluice::simulation
