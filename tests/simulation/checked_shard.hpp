// A worker's shard, with an oracle between the two: calls that decide or change something go
// through the oracle's checks, calls that only read counts go straight to the shard.
// Lives:  owned by the worker, in place of the shard; the oracle outlives it.
#pragma once

#include <memory>

#include "oracle.hpp"
#include "shard/key_decider.hpp"

namespace sluice::simulation {

class CheckedShard final : public shard::KeyDecider {
 public:
  CheckedShard(std::unique_ptr<shard::KeyDecider> shard, Oracle& oracle, api::ShardId shard_id)
      : shard_(std::move(shard)), oracle_(oracle), shard_id_(shard_id) {}

  // Checked by the oracle.
  void decide(std::span<const api::Entry> entries, const shard::Answers& answers, base::Now now,
              api::ShardId origin) noexcept override {
    oracle_.decide(shard_id_, entries, {}, answers, now, origin);
  }
  void decide(std::span<const api::Entry> entries, std::span<const api::KeyHash> hashes,
              const shard::Answers& answers, base::Now now, api::ShardId origin) noexcept override {
    oracle_.decide(shard_id_, entries, hashes, answers, now, origin);
  }
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept override {
    oracle_.decide(shard_id_, handles, verdicts, now);
  }
  api::Handle intern(std::string_view key) noexcept override {
    return oracle_.intern(shard_id_, key);
  }
  void drop_handle_reference(api::Handle handle) noexcept override {
    oracle_.drop_handle_reference(shard_id_, handle);
  }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return oracle_.key_of(shard_id_, handle);
  }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept override {
    return oracle_.withdraw(shard_id_, waiter, ticket, now, origin);
  }
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept override {
    return oracle_.abandon(shard_id_, waiter, ticket, now, origin);
  }
  bool refund(const api::RefundClaim& permit, base::Now now) noexcept override {
    return oracle_.refund(shard_id_, permit, now);
  }
  void drain(base::Now now) noexcept override { oracle_.drain(shard_id_, now); }
  void run_due(base::Now now) noexcept override { oracle_.run_due(shard_id_, now); }
  void keep_grants(size_t count) noexcept override { oracle_.keep_grants(shard_id_, count); }
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept override {
    return oracle_.adopt(shard_id_, std::move(rules), now);
  }
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept override {
    return oracle_.inspect(shard_id_, key, now);
  }
  shard::Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept override {
    return oracle_.page(shard_id_, cursor, keys_max, now);
  }

  // Passed on unchecked.
  size_t look_up(std::span<const api::Handle> handles,
                 const api::HeldKeys& keys) const noexcept override {
    return shard_->look_up(handles, keys);
  }
  std::span<api::Grant> grants() noexcept override { return shard_->grants(); }
  int64_t next_due_ns() const noexcept override { return shard_->next_due_ns(); }
  bool is_sweep_behind() const noexcept override { return shard_->is_sweep_behind(); }
  std::span<const shard::HeavyKey> heaviest_keys(uint32_t keys_max,
                                                 base::Now now) noexcept override {
    return shard_->heaviest_keys(keys_max, now);
  }
  bool may_have_kept_windows() const noexcept override { return shard_->may_have_kept_windows(); }
  uint64_t write_windows(const shard::WindowsToWrite& which, state::WindowSink& sink,
                         base::Now now) noexcept override {
    return shard_->write_windows(which, sink, now);
  }
  shard::Restoring restore(const state::WindowRecord& window, base::Now now) noexcept override {
    return shard_->restore(window, now);
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
  const api::ShardId shard_id_;
};

}  // namespace sluice::simulation
