// Connects the lanes, one after the other, and again after each loss. Part of Client.
// Flow:   connect, greet -> learn the routing, add lanes for more shards -> intern the keys that
//         belong to the lane -> Lane::install().
// Shape:  a thread of its own, because resolving names and connecting block. After a failed attempt
//         all lanes without a connection rest, each time twice as long, up to `backoff_longest`,
//         less a random part of up to a half, so that not all clients of a server reconnect at
//         once.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "condition.hpp"
#include "handle_table.hpp"
#include "sluicegate/client.hpp"
#include "sluicegate/link.hpp"

namespace sluicegate {

class IoThread;
class LaneSet;
struct Routing;

class Connector {
 public:
  using Clock = Platform::Clock;

  Connector(Platform& platform, std::string host, uint16_t port, const ClientOptions& options);

  void start(LaneSet& lanes, IoThread& io, Routing& routing, HandleTable& handles);
  // Ends a running attempt, except while it resolves a name.
  void stop();
  // A lane lost its connection.
  void notify();
  // The server answers on a lane's connection: resets the backoff.
  void note_answer() noexcept { failures_ = 0; }

 private:
  void run();
  bool connect_all();
  void connect(uint32_t lane);
  void intern(Link& link, uint32_t lane, uint32_t tag);
  void rest_all(const std::string& why);
  Clock::duration next_pause();

  Platform& platform_;
  const std::string host_;
  const uint16_t port_;
  const ClientOptions& options_;
  LaneSet* lanes_ = nullptr;
  IoThread* io_ = nullptr;
  Routing* routing_ = nullptr;
  HandleTable* handles_ = nullptr;

  std::mutex mutex_;
  Condition wake_;
  bool is_notified_ = false;
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint32_t> failures_{0};  // in a row
  std::minstd_rand random_;
  std::thread thread_;
};

}  // namespace sluicegate
