// The options of a simulated run, drawn from its seed: so that tables, buffers and mailboxes are
// full in some runs, and time-outs short.
// Flow:   random numbers -> options -> Run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/sim/sim_faults.hpp"
#include "io/sim/sim_io.hpp"
#include "policy/rule.hpp"
#include "quota/quota_store.hpp"
#include "route/mesh.hpp"
#include "session/context.hpp"
#include "shard/key_shard.hpp"

namespace sluice::simulation {

shard::Options draw_shard(io::Random& random, bool tiny_table);
session::Options draw_sessions(io::Random& random, const shard::Options& shard, bool time_outs);
quota::Options draw_quotas(io::Random& random);
// Greedy clients need large buffers, or their runs would take too long.
io::SimOptions draw_io(io::Random& random, bool greedy);
std::vector<std::string> draw_keys(io::Random& random);
route::MeshOptions draw_mesh(io::Random& random, uint32_t shards);
// Rules with other limits for some keys, or for all of them.
std::vector<policy::Rule> draw_rules(io::Random& random);

}  // namespace sluice::simulation
