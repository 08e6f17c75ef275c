// A worker's quotas, with a QuotaWatch between the two: calls that decide or change something go
// through the watch, calls that only read counts go straight to the store.
// Lives:  owned by the worker, in place of the store; the watch outlives it.
#pragma once

#include <deque>
#include <memory>

#include "quota/quota_decider.hpp"
#include "quota_watch.hpp"

namespace sluice::simulation {

class WatchedQuotas final : public quota::QuotaDecider {
 public:
  WatchedQuotas(std::unique_ptr<quota::QuotaDecider> store, QuotaWatch& watch,
                api::ShardId shard_id)
      : store_(std::move(store)), watch_(watch), shard_id_(shard_id) {}

  // Checked by the watch.
  void decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept override {
    watch_.decide(shard_id_, batch, now, origin);
  }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept override {
    return watch_.withdraw(shard_id_, waiter, ticket, now, origin);
  }
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept override {
    return watch_.abandon(shard_id_, waiter, ticket, now, origin);
  }
  bool refund(const api::RefundClaim& permit, base::Now now) noexcept override {
    return watch_.refund(shard_id_, permit, now);
  }
  void drain(base::Now now) noexcept override { watch_.drain(shard_id_, now); }
  void adopt(policy::QuotaBook& book, base::Now now) noexcept override {
    watch_.adopt(shard_id_, book, now);
  }
  void run_due(base::Now now) noexcept override { watch_.run_due(shard_id_, now); }
  void keep_grants(size_t count) noexcept override { watch_.keep_grants(shard_id_, count); }

  void next_try(api::QuotaBatch& batch) noexcept override { watch_.next_try(shard_id_, batch); }
  void end_try(const api::QuotaBatch& batch, base::Now now) noexcept override {
    watch_.end_try(shard_id_, batch, now);
  }

  // Passed on unchecked.
  std::span<api::Grant> grants() noexcept override { return store_->grants(); }
  int64_t next_due_ns() const noexcept override { return store_->next_due_ns(); }
  std::deque<api::QuotaCall>& outgoing_calls() noexcept override {
    return store_->outgoing_calls();
  }
  bool has_tries() const noexcept override { return store_->has_tries(); }
  std::string_view unknown_subject() const noexcept override { return store_->unknown_subject(); }
  bool has_claims() const noexcept override { return store_->has_claims(); }
  bool has_changes() const noexcept override { return store_->has_changes(); }
  void begin_cut(state::StateSink& sink, const quota::CutStart& start) noexcept override {
    store_->begin_cut(sink, start);
  }
  bool hand_over(uint32_t records) noexcept override { return store_->hand_over(records); }
  quota::CutFacts cut_facts() const noexcept override { return store_->cut_facts(); }
  void write_all() noexcept override { store_->write_all(); }
  quota::Restored restore(const quota::StoredState& stored, base::Now now) override {
    return store_->restore(stored, now);
  }
  uint32_t subjects_count() const noexcept override { return store_->subjects_count(); }
  uint32_t reservations_count() const noexcept override { return store_->reservations_count(); }
  uint32_t waiters_count() const noexcept override { return store_->waiters_count(); }
  const quota::Statistics& statistics() const noexcept override { return store_->statistics(); }
  uint64_t reserved_bytes() const noexcept override { return store_->reserved_bytes(); }
  void check_invariants(base::Now now) const noexcept override { store_->check_invariants(now); }

 private:
  const std::unique_ptr<quota::QuotaDecider> store_;
  QuotaWatch& watch_;
  const api::ShardId shard_id_;
};

}  // namespace sluice::simulation
