// A client of one node: reserves, consumes, waits, ends reservations of anybody, and leaves.
// Flow:   act() -> frames -> receive() -> the oracle, and the run's book of reservations.
// Lives:  until is_over(): it has left, or its node has.
#pragma once

#include <capnp/message.h>
#include <sluicegate.capnp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/sim/random.hpp"
#include "io/sim/sim_client.hpp"
#include "quota_node.hpp"
#include "quota_oracle.hpp"

namespace sluice::simulation {

using Subjects = std::vector<std::string>;  // of one call: of any nodes

struct KnownReservation {
  Subjects subjects;
  uint64_t number = 0;
};

// A consume under an id whose answer its client does not know.
struct Unanswered {
  Subjects subjects;
  std::string id;
  uint64_t tokens = 0;
  std::vector<uint64_t> starts;  // of the owners, when it was asked for first
};

// What the clients of a run share.
struct QuotaWorld {
  io::Random& random;
  QuotaOracle& oracle;
  const std::vector<std::string> subjects;
  std::vector<KnownReservation> open;  // not bound to a connection
  std::vector<Unanswered> to_repeat;
  uint64_t ids = 0;
  int64_t now_ns = 0;
  uint64_t queued = 0, granted = 0, unreachable = 0, repeated = 0, bound = 0, spread = 0,
           waiting_spread = 0, granted_spread = 0;
};

class QuotaCaller {
 public:
  // `node`: that it is connected to.
  QuotaCaller(QuotaWorld& world, const QuotaNode& node, io::SimClient client);

  void act();
  void receive();
  void leave();
  bool is_over() const { return is_over_; }

 private:
  struct Asked {
    bool consumes = false, is_bound = false, may_wait = false;
    int64_t awake_ns = 0;  // when it was asked, by the clock of its node
    Subjects subjects;
    std::string id;
    uint64_t tokens = 0;
    std::vector<uint64_t> starts;  // of the owners
  };

  void send(const std::function<void(schema::ClientFrame::Builder)>& fill);
  Subjects draw_subjects();
  bool is_spread(const Subjects& subjects) const;
  std::vector<uint64_t> starts_of(const Subjects& subjects) const;
  std::vector<uint64_t> starts_of(const Unanswered& consumed) const;
  void on_ending(const KnownReservation& ended);
  void reserve();
  void consume(const Unanswered& what);
  void end_one();
  void on_frame(schema::ServerFrame::Reader frame);
  void on_outcomes(const std::vector<Asked>& calls, capnp::Data::Reader codes,
                   capnp::List<uint64_t>::Reader reservations);
  void on_outcome(const Asked& asked, uint8_t code, uint64_t reservation);
  void check_waits();
  bool is_waiting() const;
  void repeat_later(const Asked& asked);
  void forget_all();

  QuotaWorld& world_;
  const QuotaNode& node_;
  io::SimClient client_;
  std::vector<std::byte> received_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::vector<Asked>> asked_;  // by frame: of its calls
  std::vector<KnownReservation> bound_;           // to this connection
  const bool is_patient_;  // while it waits it asks for nothing else, and stays
  bool is_over_ = false;
  int64_t last_ns_ = 0;
  int64_t awake_ns_ = 0;  // for which its node was not paused
};

}  // namespace sluice::simulation
