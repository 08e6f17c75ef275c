#include "shard/key_shard.hpp"

#include "shard/key_store.hpp"

namespace sluice::shard {

KeyShard::KeyShard(const Options& options) : store_(std::make_unique<KeyStore>(options)) {}
KeyShard::~KeyShard() = default;

void KeyShard::decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
                      api::ShardId origin) noexcept {
  store_->decide(entries, answers, now, origin);
}

void KeyShard::decide(std::span<const api::Entry> entries, std::span<const api::KeyHash> hashes,
                      const Answers& answers, base::Now now, api::ShardId origin) noexcept {
  store_->decide(entries, hashes, answers, now, origin);
}

void KeyShard::decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
                      base::Now now) noexcept {
  store_->decide(handles, verdicts, now);
}
api::Handle KeyShard::intern(std::string_view key) noexcept {
  return store_->intern(key);
}
void KeyShard::drop_handle_reference(api::Handle handle) noexcept {
  store_->drop_reference(handle);
}
std::string_view KeyShard::key_of(api::Handle handle) const noexcept {
  return store_->handles().key(handle);
}
size_t KeyShard::look_up(std::span<const api::Handle> handles,
                         const api::HeldKeys& keys) const noexcept {
  return store_->handles().look_up(handles, keys);
}
uint32_t KeyShard::handles_count() const noexcept {
  return store_->handles().used();
}

bool KeyShard::withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                        api::ShardId origin) noexcept {
  return store_->withdraw(waiter, ticket, now, origin);
}

bool KeyShard::abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                       api::ShardId origin) noexcept {
  return store_->abandon(waiter, ticket, now, origin);
}

bool KeyShard::refund(const api::RefundClaim& claim, base::Now now) noexcept {
  return store_->refund(claim, now);
}

void KeyShard::drain(base::Now now) noexcept {
  store_->drain(now);
}
bool KeyShard::is_sweep_behind() const noexcept {
  return store_->is_sweep_behind();
}

void KeyShard::run_due(base::Now now) noexcept {
  store_->run_due(now);
}
int64_t KeyShard::next_due_ns() const noexcept {
  return store_->next_due_ns();
}
std::span<api::Grant> KeyShard::grants() noexcept {
  return store_->grants();
}
void KeyShard::keep_grants(size_t count) noexcept {
  store_->keep_grants(count);
}

std::unique_ptr<policy::RuleBook> KeyShard::adopt(std::unique_ptr<policy::RuleBook> rules,
                                                  base::Now now) noexcept {
  return store_->adopt(std::move(rules), now);
}

std::optional<api::KeyState> KeyShard::inspect(std::string_view key, base::Now now) noexcept {
  return store_->inspect(key, now);
}

Page KeyShard::page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept {
  return store_->page(cursor, keys_max, now);
}

std::span<const HeavyKey> KeyShard::heaviest_keys(uint32_t keys_max, base::Now now) noexcept {
  return store_->heaviest_keys(keys_max, now);
}

bool KeyShard::may_have_kept_windows() const noexcept {
  return store_->may_have_kept_windows();
}
uint64_t KeyShard::write_windows(const WindowsToWrite& which, state::WindowSink& sink,
                                 base::Now now) noexcept {
  return store_->write_windows(which, sink, now);
}
Restoring KeyShard::restore(const state::WindowRecord& window, base::Now now) noexcept {
  return store_->restore(window, now);
}

uint32_t KeyShard::keys_count() const noexcept {
  return store_->keys_count();
}
uint32_t KeyShard::waiters_count() const noexcept {
  return store_->waiters_count();
}
const Statistics& KeyShard::statistics() const noexcept {
  return store_->statistics();
}
uint64_t KeyShard::reserved_bytes() const noexcept {
  return store_->reserved_bytes();
}
void KeyShard::check_invariants(base::Now now) const noexcept {
  store_->check_invariants(now);
}

}  // namespace sluice::shard
