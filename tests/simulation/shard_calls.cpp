#include "shard_calls.hpp"

#include "oracle.hpp"

namespace sluice::simulation {
namespace {

Oracle* current = nullptr;

}  // namespace

void install(Oracle* oracle) noexcept {
  current = oracle;
}

namespace wrapped {

void decide(shard::Shard&, std::span<const api::Entry>, const shard::Answers&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard6decideESt4spanIKNS_3api5EntryELm18446744073709551615EE"
        "RKNS0_7AnswersENS_4base3NowE");
bool withdraw(shard::Shard&, api::WaiterId, api::Ticket, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard8withdrawEjjNS_4base3NowE");
bool abandon(shard::Shard&, api::WaiterId, api::Ticket, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard7abandonEjjNS_4base3NowE");
void drain(shard::Shard&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard5drainENS_4base3NowE");
void run_due(shard::Shard&, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard7run_dueENS_4base3NowE");
void clear_grants(shard::Shard&) noexcept asm("__wrap__ZN6sluice5shard5Shard12clear_grantsEv");
std::optional<api::KeyState> inspect(const shard::Shard&, std::string_view, base::Now) noexcept
    asm("__wrap__ZNK6sluice5shard5Shard7inspectESt17basic_string_viewIcSt11char_traitsIcEE"
        "NS_4base3NowE");
shard::Page page(shard::Shard&, uint64_t, uint32_t, base::Now) noexcept
    asm("__wrap__ZN6sluice5shard5Shard4pageEmjNS_4base3NowE");

void decide(shard::Shard& shard, std::span<const api::Entry> entries, const shard::Answers& answers,
            base::Now now) noexcept {
  if (current == nullptr) return real::decide(shard, entries, answers, now);
  current->decide(shard, entries, answers, now);
}

bool withdraw(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket,
              base::Now now) noexcept {
  if (current == nullptr) return real::withdraw(shard, waiter, ticket, now);
  return current->withdraw(shard, waiter, ticket, now);
}

bool abandon(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket,
             base::Now now) noexcept {
  if (current == nullptr) return real::abandon(shard, waiter, ticket, now);
  return current->abandon(shard, waiter, ticket, now);
}

void drain(shard::Shard& shard, base::Now now) noexcept {
  if (current == nullptr) return real::drain(shard, now);
  current->drain(shard, now);
}

void run_due(shard::Shard& shard, base::Now now) noexcept {
  if (current == nullptr) return real::run_due(shard, now);
  current->run_due(shard, now);
}

void clear_grants(shard::Shard& shard) noexcept {
  if (current == nullptr) return real::clear_grants(shard);
  current->clear_grants(shard);
}

std::optional<api::KeyState> inspect(const shard::Shard& shard, std::string_view key,
                                     base::Now now) noexcept {
  if (current == nullptr) return real::inspect(shard, key, now);
  return current->inspect(shard, key, now);
}

shard::Page page(shard::Shard& shard, uint64_t cursor, uint32_t keys_max, base::Now now) noexcept {
  if (current == nullptr) return real::page(shard, cursor, keys_max, now);
  return current->page(shard, cursor, keys_max, now);
}

}  // namespace wrapped
}  // namespace sluice::simulation
