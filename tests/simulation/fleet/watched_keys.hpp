// A worker's key shard, with the oracle between the two: the oracle sees every decision.
// Lives:  owned by the worker, in place of the shard; the oracle outlives it.
#pragma once

#include <memory>

#include "fleet_oracle.hpp"
#include "shard/key_decider.hpp"

namespace sluice::simulation {

class WatchedKeys final : public shard::KeyDecider {
 public:
  WatchedKeys(std::unique_ptr<shard::KeyDecider> keys, FleetOracle& oracle, const DecidingShard& at)
      : keys_(std::move(keys)), oracle_(oracle), at_(at) {}

  // One by one, so that the oracle sees each key as the entry has found it and left it.
  void decide(std::span<const api::Entry> entries, const shard::Answers& answers, base::Now now,
              api::ShardId origin) noexcept override {
    decide(entries, {}, answers, now, origin);
  }
  void decide(std::span<const api::Entry> entries, std::span<const api::KeyHash> hashes,
              const shard::Answers& answers, base::Now now, api::ShardId origin) noexcept override {
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto hash = hashes.empty() ? hashes : hashes.subspan(i, 1);
      const shard::Answers answer{.verdicts = answers.verdicts.subspan(i, 1),
                                  .details = answers.details.subspan(i, 1),
                                  .waiters = answers.waiters.subspan(i, 1)};
      decide_one(entries.subspan(i, 1), hash, answer, now, origin);
    }
  }
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept override {
    keys_->decide(handles, verdicts, now);
  }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept override {
    const bool is_gone = keys_->withdraw(waiter, ticket, now, origin);
    note_grants();
    return is_gone;
  }
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept override {
    const bool is_gone = keys_->abandon(waiter, ticket, now, origin);
    if (is_gone) oracle_.on_left_queue(at_, origin, ticket);
    note_grants();
    return is_gone;
  }
  bool refund(const api::RefundClaim& claim, base::Now now) noexcept override {
    const bool is_done = keys_->refund(claim, now);
    oracle_.on_refund(at_, claim);
    note_grants();
    return is_done;
  }
  void drain(base::Now now) noexcept override {
    keys_->drain(now);
    note_grants();
  }
  void run_due(base::Now now) noexcept override {
    keys_->run_due(now);
    note_grants();
  }
  void keep_grants(size_t count) noexcept override {
    keys_->keep_grants(count);
    grants_noted_ = count;
  }
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept override {
    return keys_->adopt(std::move(rules), now);
  }

  // Passed on.
  api::Handle intern(std::string_view key) noexcept override { return keys_->intern(key); }
  void drop_handle_reference(api::Handle handle) noexcept override {
    keys_->drop_handle_reference(handle);
  }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return keys_->key_of(handle);
  }
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept override {
    return keys_->inspect(key, now);
  }
  shard::Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept override {
    return keys_->page(cursor, keys_max, now);
  }
  size_t look_up(std::span<const api::Handle> handles,
                 const api::HeldKeys& keys) const noexcept override {
    return keys_->look_up(handles, keys);
  }
  std::span<api::Grant> grants() noexcept override { return keys_->grants(); }
  int64_t next_due_ns() const noexcept override { return keys_->next_due_ns(); }
  bool is_sweep_behind() const noexcept override { return keys_->is_sweep_behind(); }
  std::span<const shard::HeavyKey> heaviest_keys(uint32_t keys_max,
                                                 base::Now now) noexcept override {
    return keys_->heaviest_keys(keys_max, now);
  }
  bool may_have_kept_windows() const noexcept override { return keys_->may_have_kept_windows(); }
  uint64_t write_windows(const shard::WindowsToWrite& which, state::WindowSink& sink,
                         base::Now now) noexcept override {
    return keys_->write_windows(which, sink, now);
  }
  shard::Restoring restore(const state::WindowRecord& window, base::Now now) noexcept override {
    return keys_->restore(window, now);
  }
  uint32_t keys_count() const noexcept override { return keys_->keys_count(); }
  uint32_t handles_count() const noexcept override { return keys_->handles_count(); }
  uint32_t waiters_count() const noexcept override { return keys_->waiters_count(); }
  const shard::Statistics& statistics() const noexcept override { return keys_->statistics(); }
  uint64_t reserved_bytes() const noexcept override { return keys_->reserved_bytes(); }
  void check_invariants(base::Now now) const noexcept override { keys_->check_invariants(now); }

 private:
  void decide_one(std::span<const api::Entry> entry, std::span<const api::KeyHash> hash,
                  const shard::Answers& answer, base::Now now, api::ShardId origin) {
    const auto before = keys_->inspect(entry[0].key(), now);
    const uint32_t approved_before = before ? before->approved : 0;
    if (hash.empty()) {
      keys_->decide(entry, answer, now, origin);
    } else {
      keys_->decide(entry, hash, answer, now, origin);
    }
    oracle_.on_decided(at_, {.entry = entry[0],
                             .verdict = answer.verdicts[0],
                             .detail = answer.details[0],
                             .origin = origin,
                             .approved_before = approved_before,
                             .state = keys_->inspect(entry[0].key(), now),
                             .now = now});
    note_grants();
  }

  void note_grants() {
    const auto grants = keys_->grants();
    for (; grants_noted_ < grants.size(); ++grants_noted_) {
      oracle_.on_grant(at_, grants[grants_noted_]);
    }
  }

  const std::unique_ptr<shard::KeyDecider> keys_;
  FleetOracle& oracle_;
  const DecidingShard at_;
  size_t grants_noted_ = 0;
};

}  // namespace sluice::simulation
