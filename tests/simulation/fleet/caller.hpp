// A client of one node of a simulated fleet: asks, waits, withdraws, releases, and leaves at any
// time.
// Flow:   the run -> act(), receive(); settle() at the end. What it asks and receives goes to the
//         oracle.
// Lives:  one connection; everything it refers to outlives it.
#pragma once

#include <string>

#include "../frames.hpp"
#include "call.hpp"
#include "fleet_options.hpp"
#include "fleet_oracle.hpp"
#include "io/sim/sim_client.hpp"

namespace sluice::simulation {

// What all callers share.
struct CallerWorld {
  io::Random& random;
  const DrawnFleet& fleet;
  FleetOracle& oracle;
  Failure& failure;
  uint32_t keys_count = 6;
};

class Caller {
 public:
  Caller(CallerWorld& world, uint32_t node, io::SimClient client)
      : world_(world), node_(node), client_(client) {}
  virtual ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // One random step.
  void act();
  // Takes and checks the answers that have arrived.
  void receive();
  // Asks nothing more, and ends when all answers are there.
  void settle() { settles_ = true; }
  bool is_over() const { return is_over_; }
  uint32_t node() const { return node_; }

 protected:
  virtual void ask() = 0;
  virtual void take_answers() = 0;
  virtual bool awaits_answer() const = 0;
  virtual void leave_calls() = 0;  // reports all that are open as left

  // An entry of a key that several ask for, or of one that nobody else does.
  Call drawn_call(bool may_be_unique);
  void fail(const std::string& text);
  void end();

  CallerWorld& world_;
  const uint32_t node_;
  io::SimClient client_;
  Bytes inbox_;

 private:
  bool settles_ = false;
  bool is_over_ = false;
};

}  // namespace sluice::simulation
