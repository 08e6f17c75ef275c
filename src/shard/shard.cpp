#include "shard/shard.hpp"

#include "shard/key_store.hpp"

namespace sluice::shard {

Shard::Shard(const Options& options) : store_(std::make_unique<KeyStore>(options)) {}
Shard::~Shard() = default;

void Shard::decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
                   api::ShardId origin) noexcept {
  store_->decide(entries, answers, now, origin);
}

void Shard::decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
                   base::Now now) noexcept {
  store_->decide(handles, verdicts, now);
}
api::Handle Shard::intern(std::string_view key) noexcept {
  return store_->intern(key);
}
void Shard::free_handle(api::Handle handle) noexcept {
  store_->drop_reference(handle);
}
std::string_view Shard::key_of(api::Handle handle) const noexcept {
  return store_->handles().key(handle);
}
uint32_t Shard::handles_count() const noexcept {
  return store_->handles().used();
}

bool Shard::withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::ShardId origin) noexcept {
  return store_->withdraw(waiter, ticket, now, origin);
}

bool Shard::abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                    api::ShardId origin) noexcept {
  return store_->abandon(waiter, ticket, now, origin);
}

bool Shard::refund(const api::Permit& permit, base::Now now) noexcept {
  return store_->refund(permit, now);
}

void Shard::drain(base::Now now) noexcept {
  store_->drain(now);
}
bool Shard::sweep_late() const noexcept {
  return store_->sweep_late();
}

void Shard::run_due(base::Now now) noexcept {
  store_->run_due(now);
}
int64_t Shard::next_due_ns() const noexcept {
  return store_->next_due_ns();
}
std::span<api::Grant> Shard::grants() noexcept {
  return store_->grants();
}
void Shard::keep_grants(size_t count) noexcept {
  store_->keep_grants(count);
}

std::unique_ptr<policy::RuleBook> Shard::adopt(std::unique_ptr<policy::RuleBook> rules,
                                               base::Now now) noexcept {
  return store_->adopt(std::move(rules), now);
}

std::optional<api::KeyState> Shard::inspect(std::string_view key, base::Now now) noexcept {
  return store_->inspect(key, now);
}

Page Shard::page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept {
  return store_->page(cursor, keys_max, now);
}

std::span<const HeavyKey> Shard::heaviest_keys(uint32_t keys_max, base::Now now) noexcept {
  return store_->heaviest_keys(keys_max, now);
}

uint32_t Shard::keys_count() const noexcept {
  return store_->keys_count();
}
uint32_t Shard::waiters_count() const noexcept {
  return store_->waiters_count();
}
const Statistics& Shard::statistics() const noexcept {
  return store_->statistics();
}
uint64_t Shard::reserved_bytes() const noexcept {
  return store_->reserved_bytes();
}
void Shard::check_invariants(base::Now now) const noexcept {
  store_->check_invariants(now);
}

}  // namespace sluice::shard
