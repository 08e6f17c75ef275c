// Every call on a Shard goes through the run's Oracle: the linker redirects it (--wrap in
// meson.build), so that the server under test is the one that is shipped.
// Flow:   worker -> __wrap_<symbol> (shard_calls.cpp) -> Oracle -> real::*, the shard's own
// methods. Lives:  one Oracle at a time; without one, calls go straight through.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "shard/shard.hpp"

namespace sluice::simulation {

class Oracle;
void install(Oracle* oracle) noexcept;

// A method is a function whose first argument is its object; the labels are the methods' symbols.
namespace real {

void decide(shard::Shard&, std::span<const api::Entry>, const shard::Answers&, base::Now,
            api::CoreId) noexcept
    asm("__real__ZN6sluice5shard5Shard6decideESt4spanIKNS_3api5EntryELm18446744073709551615EE"
        "RKNS0_7AnswersENS_4base3NowEt");
void decide(shard::Shard&, std::span<const api::Handle>, std::span<api::Verdict>,
            base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard6decideESt4spanIKjLm18446744073709551615EES2_INS_3api7Verdict"
        "ELm18446744073709551615EENS_4base3NowE");
api::Handle intern(shard::Shard&, std::string_view) noexcept
    asm("__real__ZN6sluice5shard5Shard6internESt17basic_string_viewIcSt11char_traitsIcEE");
void let_go(shard::Shard&, api::Handle) noexcept asm("__real__ZN6sluice5shard5Shard6let_goEj");
std::string_view key_of(const shard::Shard&, api::Handle) noexcept
    asm("__real__ZNK6sluice5shard5Shard6key_ofEj");
bool withdraw(shard::Shard&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__real__ZN6sluice5shard5Shard8withdrawEjjNS_4base3NowEt");
bool abandon(shard::Shard&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__real__ZN6sluice5shard5Shard7abandonEjjNS_4base3NowEt");
bool give_back(shard::Shard&, const api::Permit&, base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard9give_backERKNS_3api6PermitENS_4base3NowE");
void drain(shard::Shard&, base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard5drainENS_4base3NowE");
void run_due(shard::Shard&, base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard7run_dueENS_4base3NowE");
void keep_grants(shard::Shard&, size_t) noexcept
    asm("__real__ZN6sluice5shard5Shard11keep_grantsEm");
std::optional<api::KeyState> inspect(shard::Shard&, std::string_view, base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard7inspectESt17basic_string_viewIcSt11char_traitsIcEE"
        "NS_4base3NowE");
std::unique_ptr<policy::RuleBook> adopt(shard::Shard&, std::unique_ptr<policy::RuleBook>,
                                        base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard5adoptESt10unique_ptrINS_6policy8RuleBookESt14default_delete"
        "IS4_EENS_4base3NowE");
shard::Page page(shard::Shard&, uint64_t, uint32_t, base::Now) noexcept
    asm("__real__ZN6sluice5shard5Shard4pageEmjNS_4base3NowE");

}  // namespace real
}  // namespace sluice::simulation
