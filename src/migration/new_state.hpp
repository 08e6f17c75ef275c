// Makes a state file with the subjects of another limiter: one commit of one shard, as a server
// would have made it at that moment. A server with any number of shards goes on with it.
// Flow:   Incoming -> write_new_state() -> the server's --state.
// Shape:  as a backup (store::NewState).
// Errors: std::runtime_error, which names the file, the cause and the cure; then there is nothing
//         in the file's place, and nothing beside it. A file that is there is never overwritten.
// Lives:  a file that was written survives a power failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "migration/incoming.hpp"
#include "server/state_meta.hpp"
#include "state/state_clock.hpp"

namespace sluice::migration {

struct NewStateOptions {
  std::string path;
  state::MachineTime now;  // its wall time is the one that incoming_of() was given
  server::StateSeeds seeds;
  bool puts_quotas = false;  // they become quotas that were put at run time
};

// Refuses what write_new_state() would refuse now, before any work.
void check_new_state_place(const std::string& path);

void write_new_state(const std::vector<IncomingSubject>& subjects, const NewStateOptions& options);

}  // namespace sluice::migration
