// A worker's quotas as a base for those that watch some calls: it passes every call on.
// Lives:  owned by the worker, in place of the store.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "quota/quota_decider.hpp"

namespace sluice::simulation {

class PassingQuotas : public quota::QuotaDecider {
 public:
  explicit PassingQuotas(std::unique_ptr<quota::QuotaDecider> store) : store_(std::move(store)) {}

  void decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept override {
    store_->decide(batch, now, origin);
  }
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept override {
    return store_->withdraw(waiter, ticket, now, origin);
  }
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept override {
    return store_->abandon(waiter, ticket, now, origin);
  }
  bool refund(const api::RefundClaim& permit, base::Now now) noexcept override {
    return store_->refund(permit, now);
  }
  void drain(base::Now now) noexcept override { store_->drain(now); }
  void adopt(policy::QuotaBook& book, base::Now now) noexcept override { store_->adopt(book, now); }
  void run_due(base::Now now) noexcept override { store_->run_due(now); }
  void keep_grants(size_t count) noexcept override { store_->keep_grants(count); }
  void next_try(api::QuotaBatch& batch) noexcept override { store_->next_try(batch); }
  void end_try(const api::QuotaBatch& batch, base::Now now) noexcept override {
    store_->end_try(batch, now);
  }
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
  void drop_moved_quota(std::string_view name, base::Now now) noexcept override {
    store_->drop_moved_quota(name, now);
  }
  uint32_t subjects_count() const noexcept override { return store_->subjects_count(); }
  uint32_t reservations_count() const noexcept override { return store_->reservations_count(); }
  uint32_t waiters_count() const noexcept override { return store_->waiters_count(); }
  const quota::Statistics& statistics() const noexcept override { return store_->statistics(); }
  uint64_t reserved_bytes() const noexcept override { return store_->reserved_bytes(); }
  void check_invariants(base::Now now) const noexcept override { store_->check_invariants(now); }

 protected:
  quota::QuotaDecider& store() noexcept { return *store_; }

 private:
  const std::unique_ptr<quota::QuotaDecider> store_;
};

}  // namespace sluice::simulation
