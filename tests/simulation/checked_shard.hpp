// A worker's shard, with an oracle between the two: what decides or changes something goes through
// the oracle's checks, what only counts goes straight to the shard.
// Lives:  the worker's, as the shard would be; the oracle outlives it.
#pragma once

#include <memory>

#include "oracle.hpp"
#include "shard/key_decider.hpp"

namespace sluice::simulation {

class CheckedShard final : public shard::KeyDecider {
 public:
  CheckedShard(std::unique_ptr<shard::KeyDecider> shard, Oracle& oracle, api::CoreId core)
      : shard_(std::move(shard)), oracle_(oracle), core_(core) {}

  // Checked.
  void decide(std::span<const api::Entry> entries, const shard::Answers& answers, base::Now now,
              api::CoreId origin) noexcept override {
    oracle_.decide(core_, entries, answers, now, origin);
  }
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept override {
    oracle_.decide(core_, handles, verdicts, now);
  }
  api::Handle intern(std::string_view key) noexcept override { return oracle_.intern(core_, key); }
  void free_handle(api::Handle handle) noexcept override { oracle_.free_handle(core_, handle); }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return oracle_.key_of(core_, handle);
  }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::CoreId origin) noexcept override {
    return oracle_.withdraw(core_, waiter, ticket, now, origin);
  }
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::CoreId origin) noexcept override {
    return oracle_.abandon(core_, waiter, ticket, now, origin);
  }
  bool refund(const api::Permit& permit, base::Now now) noexcept override {
    return oracle_.refund(core_, permit, now);
  }
  void drain(base::Now now) noexcept override { oracle_.drain(core_, now); }
  void run_due(base::Now now) noexcept override { oracle_.run_due(core_, now); }
  void keep_grants(size_t count) noexcept override { oracle_.keep_grants(core_, count); }
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept override {
    return oracle_.adopt(core_, std::move(rules), now);
  }
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept override {
    return oracle_.inspect(core_, key, now);
  }
  shard::Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept override {
    return oracle_.page(core_, cursor, keys_max, now);
  }

  // The shard's own.
  std::span<api::Grant> grants() noexcept override { return shard_->grants(); }
  int64_t next_due_ns() const noexcept override { return shard_->next_due_ns(); }
  bool sweep_late() const noexcept override { return shard_->sweep_late(); }
  std::span<const shard::HeavyKey> heaviest_keys(uint32_t keys_max,
                                                 base::Now now) noexcept override {
    return shard_->heaviest_keys(keys_max, now);
  }
  uint32_t keys_count() const noexcept override { return shard_->keys_count(); }
  uint32_t handles_count() const noexcept override { return shard_->handles_count(); }
  uint32_t waiters_count() const noexcept override { return shard_->waiters_count(); }
  const shard::Statistics& statistics() const noexcept override { return shard_->statistics(); }
  uint64_t reserved_bytes() const noexcept override { return shard_->reserved_bytes(); }
  void check_invariants(base::Now now) const noexcept override { shard_->check_invariants(now); }

 private:
  const std::unique_ptr<shard::KeyDecider> shard_;
  Oracle& oracle_;
  const api::CoreId core_;
};

}  // namespace sluice::simulation
