// Every call on a QuotaStore goes through the run's QuotaWatch, as those on a Shard go through its
// Oracle (shard_calls.hpp).
// Lives:  one QuotaWatch at a time; without one, calls go straight through.
#pragma once

#include "quota/quota_store.hpp"

namespace sluice::simulation {

class QuotaWatch;
void install(QuotaWatch* watch) noexcept;

// A method is a function whose first argument is its object; the labels are the methods' symbols.
namespace real {

void decide(quota::QuotaStore&, api::QuotaBatch&, base::Now, api::CoreId) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore6decideERNS_3api10QuotaBatchENS_4base3NowEt");
bool withdraw(quota::QuotaStore&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore8withdrawEjjNS_4base3NowEt");
bool abandon(quota::QuotaStore&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore7abandonEjjNS_4base3NowEt");
bool give_back(quota::QuotaStore&, uint64_t, base::Now) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore9give_backEmNS_4base3NowE");
void drain(quota::QuotaStore&, base::Now) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore5drainENS_4base3NowE");
void adopt(quota::QuotaStore&, policy::QuotaBook&, base::Now) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore5adoptERNS_6policy9QuotaBookENS_4base3NowE");
void run_due(quota::QuotaStore&, base::Now) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore7run_dueENS_4base3NowE");
void keep_grants(quota::QuotaStore&, size_t) noexcept
    asm("__real__ZN6sluice5quota10QuotaStore11keep_grantsEm");

}  // namespace real
}  // namespace sluice::simulation
