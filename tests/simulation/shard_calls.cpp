#include "shard_calls.hpp"

#include <utility>

#include "oracle.hpp"

namespace sluice::simulation {
namespace {

Oracle* current = nullptr;

}  // namespace

void install(Oracle* oracle) noexcept {
  current = oracle;
}

namespace wrapped {

void decide(shard::Shard&, std::span<const api::Entry>, const shard::Answers&, base::Now,
            api::CoreId) noexcept
    asm("__wrap__ZN6sluice5shard5Shard6decideESt4spanIKNS_3api5EntryELm18446744073709551615EE"
        "RKNS0_7AnswersENS_4base3NowEt");
void decide(shard::Shard&, std::span<const api::Handle>, std::span<api::Verdict>,
            base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard6decideESt4spanIKjLm18446744073709551615EES2_INS_3api7Verdict"
        "ELm18446744073709551615EENS_4base3NowE");
api::Handle intern(shard::Shard&, std::string_view) noexcept
    asm("__wrap__ZN6sluice5shard5Shard6internESt17basic_string_viewIcSt11char_traitsIcEE");
void let_go(shard::Shard&, api::Handle) noexcept asm("__wrap__ZN6sluice5shard5Shard6let_goEj");
std::string_view key_of(const shard::Shard&, api::Handle) noexcept
    asm("__wrap__ZNK6sluice5shard5Shard6key_ofEj");
bool withdraw(shard::Shard&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__wrap__ZN6sluice5shard5Shard8withdrawEjjNS_4base3NowEt");
bool abandon(shard::Shard&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__wrap__ZN6sluice5shard5Shard7abandonEjjNS_4base3NowEt");
bool give_back(shard::Shard&, const api::Permit&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard9give_backERKNS_3api6PermitENS_4base3NowE");
void drain(shard::Shard&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard5drainENS_4base3NowE");
void run_due(shard::Shard&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard7run_dueENS_4base3NowE");
void keep_grants(shard::Shard&, size_t) noexcept
    asm("__wrap__ZN6sluice5shard5Shard11keep_grantsEm");
std::optional<api::KeyState> inspect(shard::Shard&, std::string_view, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard7inspectESt17basic_string_viewIcSt11char_traitsIcEE"
        "NS_4base3NowE");
std::unique_ptr<policy::RuleBook> adopt(shard::Shard&, std::unique_ptr<policy::RuleBook>,
                                        base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard5adoptESt10unique_ptrINS_6policy8RuleBookESt14default_delete"
        "IS4_EENS_4base3NowE");
shard::Page page(shard::Shard&, uint64_t, uint32_t, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard4pageEmjNS_4base3NowE");

void decide(shard::Shard& shard, std::span<const api::Entry> entries, const shard::Answers& answers,
            base::Now now, api::CoreId origin) noexcept {
  if (current == nullptr) return real::decide(shard, entries, answers, now, origin);
  current->decide(shard, entries, answers, now, origin);
}

void decide(shard::Shard& shard, std::span<const api::Handle> handles,
            std::span<api::Verdict> verdicts, base::Now now) noexcept {
  if (current == nullptr) return real::decide(shard, handles, verdicts, now);
  current->decide(shard, handles, verdicts, now);
}

api::Handle intern(shard::Shard& shard, std::string_view key) noexcept {
  if (current == nullptr) return real::intern(shard, key);
  return current->intern(shard, key);
}

void let_go(shard::Shard& shard, api::Handle handle) noexcept {
  if (current == nullptr) return real::let_go(shard, handle);
  current->let_go(shard, handle);
}

std::string_view key_of(const shard::Shard& shard, api::Handle handle) noexcept {
  if (current == nullptr) return real::key_of(shard, handle);
  return current->key_of(shard, handle);
}

bool withdraw(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now,
              api::CoreId origin) noexcept {
  if (current == nullptr) return real::withdraw(shard, waiter, ticket, now, origin);
  return current->withdraw(shard, waiter, ticket, now, origin);
}

bool abandon(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now,
             api::CoreId origin) noexcept {
  if (current == nullptr) return real::abandon(shard, waiter, ticket, now, origin);
  return current->abandon(shard, waiter, ticket, now, origin);
}

bool give_back(shard::Shard& shard, const api::Permit& permit, base::Now now) noexcept {
  if (current == nullptr) return real::give_back(shard, permit, now);
  return current->give_back(shard, permit, now);
}

void drain(shard::Shard& shard, base::Now now) noexcept {
  if (current == nullptr) return real::drain(shard, now);
  current->drain(shard, now);
}

void run_due(shard::Shard& shard, base::Now now) noexcept {
  if (current == nullptr) return real::run_due(shard, now);
  current->run_due(shard, now);
}

void keep_grants(shard::Shard& shard, size_t count) noexcept {
  if (current == nullptr) return real::keep_grants(shard, count);
  current->keep_grants(shard, count);
}

std::optional<api::KeyState> inspect(shard::Shard& shard, std::string_view key,
                                     base::Now now) noexcept {
  if (current == nullptr) return real::inspect(shard, key, now);
  return current->inspect(shard, key, now);
}

std::unique_ptr<policy::RuleBook> adopt(shard::Shard& shard,
                                        std::unique_ptr<policy::RuleBook> rules,
                                        base::Now now) noexcept {
  if (current == nullptr) return real::adopt(shard, std::move(rules), now);
  return current->adopt(shard, std::move(rules), now);
}

shard::Page page(shard::Shard& shard, uint64_t cursor, uint32_t keys_max, base::Now now) noexcept {
  if (current == nullptr) return real::page(shard, cursor, keys_max, now);
  return current->page(shard, cursor, keys_max, now);
}

}  // namespace wrapped
}  // namespace sluice::simulation
