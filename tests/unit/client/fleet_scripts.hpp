// What the tests of a client of several nodes share: keys, options, and waiting for connections.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fake_fleet.hpp"

namespace sluicegate::test {

using namespace std::chrono_literals;

inline std::vector<std::string> names(size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("key:" + std::to_string(i));
  return keys;
}

inline const std::vector<std::string> keys = names(30);
inline const std::vector<std::string_view> key_views{keys.begin(), keys.end()};

inline std::string a_key_of(uint32_t place, uint32_t nodes_count) {
  return *std::ranges::find_if(
      keys, [&](const auto& key) { return sluice::proto::key_node(key, nodes_count) == place; });
}

// An hour: nothing is tried again by itself.
inline ClientOptions patient(ClientOptions options = {}) {
  options.owner_retry = 1h;
  return quick(std::move(options));
}

inline void wait_for_connections(const Client& client, size_t count) {
  while (client.connections() != count) std::this_thread::sleep_for(1ms);
}

inline uint16_t port_of_nobody() {
  return FakeServer{[](Peer&) {}}.port();
}

// The second node answers no acquire, so that calls pile up on its lane.
struct Piled {
  FakeFleet fleet{2};
  Client client;

  explicit Piled(ClientOptions options)
      : client{std::vector{fleet.address(0)}, patient(one_frame(std::move(options)))} {
    wait_for_connections(client, 2);
    EXPECT_TRUE(client.acquire(a_key_of(1, 2)));
    fleet.forget();
    fleet.hold(1);
  }
  static ClientOptions one_frame(ClientOptions options) {
    options.frames_in_flight = 1;
    options.call_timeout = 60s;
    return options;
  }
};

// Calls pile up on each lane, and fail as denied.
inline ClientOptions one_frame(ClientOptions options = {}) {
  options.on_failure = OnFailure::closed;
  return patient(Piled::one_frame(std::move(options)));
}

}  // namespace sluicegate::test
