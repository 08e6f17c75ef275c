#include "quota_calls.hpp"

#include "quota_watch.hpp"

namespace sluice::simulation {
namespace {

QuotaWatch* current = nullptr;

}  // namespace

void install(QuotaWatch* watch) noexcept {
  current = watch;
}

namespace wrapped {

void decide(quota::QuotaStore&, api::QuotaBatch&, base::Now, api::CoreId) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore6decideERNS_3api10QuotaBatchENS_4base3NowEt");
bool withdraw(quota::QuotaStore&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore8withdrawEjjNS_4base3NowEt");
bool abandon(quota::QuotaStore&, api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore7abandonEjjNS_4base3NowEt");
bool give_back(quota::QuotaStore&, uint64_t, base::Now) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore9give_backEmNS_4base3NowE");
void drain(quota::QuotaStore&, base::Now) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore5drainENS_4base3NowE");
void adopt(quota::QuotaStore&, policy::QuotaBook&, base::Now) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore5adoptERNS_6policy9QuotaBookENS_4base3NowE");
void run_due(quota::QuotaStore&, base::Now) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore7run_dueENS_4base3NowE");
void keep_grants(quota::QuotaStore&, size_t) noexcept
    asm("__wrap__ZN6sluice5quota10QuotaStore11keep_grantsEm");

void decide(quota::QuotaStore& store, api::QuotaBatch& batch, base::Now now,
            api::CoreId origin) noexcept {
  if (current == nullptr) return real::decide(store, batch, now, origin);
  current->decide(store, batch, now, origin);
}

bool withdraw(quota::QuotaStore& store, api::WaiterId waiter, api::Ticket ticket, base::Now now,
              api::CoreId origin) noexcept {
  if (current == nullptr) return real::withdraw(store, waiter, ticket, now, origin);
  return current->withdraw(store, waiter, ticket, now, origin);
}

bool abandon(quota::QuotaStore& store, api::WaiterId waiter, api::Ticket ticket, base::Now now,
             api::CoreId origin) noexcept {
  if (current == nullptr) return real::abandon(store, waiter, ticket, now, origin);
  return current->abandon(store, waiter, ticket, now, origin);
}

bool give_back(quota::QuotaStore& store, uint64_t reservation, base::Now now) noexcept {
  if (current == nullptr) return real::give_back(store, reservation, now);
  return current->give_back(store, reservation, now);
}

void drain(quota::QuotaStore& store, base::Now now) noexcept {
  if (current == nullptr) return real::drain(store, now);
  current->drain(store, now);
}

void adopt(quota::QuotaStore& store, policy::QuotaBook& book, base::Now now) noexcept {
  if (current == nullptr) return real::adopt(store, book, now);
  current->adopt(store, book, now);
}

void run_due(quota::QuotaStore& store, base::Now now) noexcept {
  if (current == nullptr) return real::run_due(store, now);
  current->run_due(store, now);
}

void keep_grants(quota::QuotaStore& store, size_t count) noexcept {
  if (current == nullptr) return real::keep_grants(store, count);
  current->keep_grants(store, count);
}

}  // namespace wrapped
}  // namespace sluice::simulation
