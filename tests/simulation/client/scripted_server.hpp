// A server that reads real frames and answers as it likes: late, in another order, in parts; it
// denies, queues, grants across a withdrawal, refuses, drains, breaks connections and the protocol,
// and returns as another instance with other shards.
// Flow:   receive() -> a frame -> Asked, one per entry -> after a while, what it replies -> Ledger.
// Threads: none; its surroundings call it from one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ledger.hpp"
#include "sim_platform.hpp"
#include "sluicegate.capnp.h"
#include "surroundings.hpp"
#include "tests/property/seeds.hpp"

namespace sluicegate::simulation {

namespace schema = sluice::schema;

class ScriptedServer final : public Listener {
 public:
  ScriptedServer(uint64_t seed, Surroundings& surroundings, Ledger& ledger);

  Arrival knock() override;
  void accept(uint32_t connection) override;
  void receive(uint32_t connection, std::string_view bytes) override;
  void client_left(uint32_t connection) override;

  // From now on every connection stays, and every entry is answered.
  void calm_down() { is_calm_ = true; }
  bool is_connected(uint32_t connection) const { return peers_.contains(connection); }

 private:
  using Entries = std::vector<std::shared_ptr<Asked>>;

  struct Peer {
    std::string inbound{};
    bool is_greeted = false;
    bool is_draining = false;
    std::map<uint32_t, std::string> keys{};  // by handle
    std::map<uint64_t, Entries> open{};      // frames that are not complete
    std::map<uint64_t, bool> unanswered{};   // frames without a first answer
    uint32_t outstanding_max = 0;
  };

  void plan_trouble();
  void make_trouble();
  void restart();
  void end(uint32_t connection, bool at_once);
  void take_frame(uint32_t connection, Peer& peer, schema::ClientFrame::Reader frame);
  void greet(uint32_t connection, schema::Hello::Reader hello);
  void withdraw(uint32_t connection, Peer& peer, uint64_t id, schema::Withdraw::Reader withdraw);
  void intern(uint32_t connection, Peer& peer, uint64_t id, schema::Intern::Reader intern);
  Entries note(uint32_t connection, uint64_t frame, const std::vector<std::string>& names);

  enum class Kind : uint8_t { acquire, release, reserve, other };
  void answer_later(uint32_t connection, uint64_t id, Kind kind, Entries entries);
  void answer(uint32_t connection, uint64_t id, Kind kind, const Entries& entries);
  void refuse(uint32_t connection, uint64_t id, const Entries& entries);
  void grant_later(uint32_t connection, uint64_t id, Kind kind, Entries queued);
  void grant(uint32_t connection, uint64_t id, const Entries& granted, bool is_withdrawn);
  Reply decide(Kind kind, const Asked& asked);
  void reply(uint32_t connection, std::string bytes,
             const std::vector<std::pair<Asked*, size_t>>& written, Entries keep);
  Peer* alive(uint32_t connection);
  Clock::duration some_time();
  void event(const char* what) { ++ledger_.events[what]; }

  sluice::Dice dice_;
  Surroundings& surroundings_;
  Ledger& ledger_;
  bool is_calm_ = false;
  Time down_until_{};
  uint64_t instance_ = 1;
  uint32_t shards_ = 1;
  uint32_t next_handle_ = 1;
  uint64_t next_reservation_ = 1;
  std::map<uint32_t, Peer> peers_;
  std::map<uint64_t, Kind> kinds_;  // of open frames, by connection and id
};

}  // namespace sluicegate::simulation
