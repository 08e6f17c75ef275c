// The model of what each caller must see: one outcome, the right one, and not later than its first
// cause (the answer's arrival, the end of the connection, the deadline). Afterwards nothing may be
// left over: queues are left, unwanted grants undone, and all counts of the client are zero.
// Shape:  with an exact clock (the simulation's), an outcome comes at the very moment of its cause;
//         with real threads the judge checks what does not depend on the clock.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "calls.hpp"
#include "ledger.hpp"

namespace sluicegate::simulation {

struct Evidence {
  const Ledger& ledger;
  const std::deque<MadeCall>& calls;
  const ClientOptions& options;
  bool has_exact_clock = false;
  std::set<Time> failures{};       // of attempts to connect, and connections that the client closed
  std::optional<Time> closed{};    // the client
  std::set<uint32_t> connected{};  // connections that are there at the end
  std::set<uint64_t> kept{};       // reservations whose settles the client repeats
};

// A sentence for each violation.
std::vector<std::string> judge(const Evidence& evidence);

}  // namespace sluicegate::simulation
