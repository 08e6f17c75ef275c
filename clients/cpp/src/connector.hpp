// Connects the lanes, one after the other, and again after each loss. Part of Client.
// Flow:   connect, greet -> learn the routing, add lanes for more shards -> intern the keys that
//         belong to the lane -> Lane::install(). Of several nodes: see Fleet.
// Shape:  a thread of its own, because resolving names and connecting block. After a failed attempt
//         all lanes without a connection rest (backoff.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backoff.hpp"
#include "condition.hpp"
#include "dialer.hpp"
#include "fleet.hpp"
#include "routing.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {

class IoThread;

class Connector {
 public:
  using Clock = Platform::Clock;
  using Deadline = Platform::Deadline;

  struct Parts {
    Platform& platform;
    const ClientOptions& options;
    LaneSet& lanes;
    Routing& routing;  // of a single server
    NodeTable& nodes;
    HandleTable& handles;
    IoThread& io;
  };

  // To one server.
  Connector(const Parts& parts, Address address);
  // To all nodes that share keys with one of these.
  Connector(const Parts& parts, std::vector<Address> addresses);

  void start();
  // Ends a running attempt, except while it resolves a name.
  void stop();
  // A lane lost its connection.
  void notify();
  // The server answers on a lane's connection: resets the backoff.
  void note_answer() noexcept { failures_ = 0; }
  // A server reports which nodes there are now.
  void note_nodes(const Topology& topology);

  LaneSet& lanes() noexcept { return parts_.lanes; }
  // Another server may take over the calls of one that shuts down.
  bool has_fleet() const noexcept { return fleet_.has_value(); }
  Lane& add_lane();
  bool is_stopping() const noexcept { return is_stopping_; }

 private:
  void run();
  Deadline connect_due();
  void connect_all();
  void connect(uint32_t lane);
  void rest_all(const std::string& why);

  const Parts parts_;
  const Address address_;  // of a single server
  std::atomic<bool> is_stopping_{false};
  Dialer dialer_;
  std::optional<Fleet> fleet_;

  std::mutex mutex_;
  Condition wake_;
  bool is_notified_ = false;
  std::atomic<uint32_t> failures_{0};  // in a row
  Backoff backoff_;
  std::thread thread_;
};

}  // namespace sluicegate
