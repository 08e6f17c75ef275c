// Why a shard refuses a call, or has it wait, computed from its usage alone: what other calls hold
// until their verdicts is no reason. And whether a call leaves room for earlier ones.
// Flow:   the store has found something in the way of a call -> its usage of the call's subjects,
//         less the holds -> whether a limit lacks room.
// Shape:  functions that ask the store for its usage and nothing else.
#pragma once

#include <utility>
#include <vector>

#include "quota/quota_decider.hpp"

namespace sluice::simulation {

using CallName = std::pair<const api::QuotaBatch*, size_t>;

// The names of the call's subjects that this shard has.
std::vector<std::string_view> subjects_at(const CallName& call, api::ShardId shard);

// Whether a limit of these has no room for the call beside what is charged. Unknown if the server
// chose amounts of the call, or of a hold on a subject that might lack it.
enum class LacksRoom : uint8_t { no, yes, unknown };
LacksRoom lacks_room(quota::QuotaDecider& store, const CallName& call,
                     const std::vector<CallName>& holds, api::ShardId shard, base::Now now);

// Whether calls of this list have a subject of this shard in common with the call.
bool share_subject(const CallName& call, const std::vector<CallName>& others, api::ShardId shard);
// The call is charged or held: whether its limits, as far as it takes something of them, have room
// for these calls, too.
bool leaves_room(quota::QuotaDecider& store, const CallName& call,
                 const std::vector<CallName>& others, api::ShardId shard, base::Now now);

}  // namespace sluice::simulation
