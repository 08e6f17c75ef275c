// A worker's quotas, with a QuotaWatch between the two: calls that decide or change something go
// through the watch, calls that only read counts go straight to the store.
// Lives:  owned by the worker, in place of the store; the watch outlives it.
#pragma once

#include <memory>
#include <utility>

#include "passing_quotas.hpp"
#include "quota_watch.hpp"

namespace sluice::simulation {

class WatchedQuotas final : public PassingQuotas {
 public:
  WatchedQuotas(std::unique_ptr<quota::QuotaDecider> store, QuotaWatch& watch,
                api::ShardId shard_id)
      : PassingQuotas(std::move(store)), watch_(watch), shard_id_(shard_id) {}

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

 private:
  QuotaWatch& watch_;
  const api::ShardId shard_id_;
};

}  // namespace sluice::simulation
