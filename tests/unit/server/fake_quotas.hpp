// Quotas that admit every call for their shard, are never due, and record the calls.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "proto/reservation_id.hpp"
#include "quota/quota_decider.hpp"
#include "quota/spread_round.hpp"

namespace sluice::server {

class FakeQuotas : public quota::QuotaDecider {
 public:
  // The record, which outlives the quotas, so that a worker may own them.
  struct Asked {
    std::vector<api::QuotaOp> calls;
    uint8_t last_flags = 0;            // of the last of them
    std::vector<std::string> dropped;  // quotas that have moved
    int adopted = 0;
    int drained = 0;
    int checked = 0;
    int retried = 0;        // batches that were decided again
    bool has_hold = false;  // so calls await a verdict
  };
  // An id that leads to one of three shards.
  static uint64_t reservation(api::ShardId shard, uint64_t number) noexcept {
    const auto route = static_cast<uint16_t>((shard * 65'536 + 2) / 3);
    return proto::reservation_id::make(route, false, number);
  }

  FakeQuotas(Asked& asked, api::ShardId shard) : asked_(asked), shard_(shard) {}

  void decide(api::QuotaBatch& batch, base::Now, api::ShardId) noexcept override {
    if (!batch.spread.empty()) return decide_spread(batch);
    asked_.retried += batch.awaits_verdict ? 1 : 0;
    batch.awaits_verdict = asked_.has_hold && batch.calls[0].op == api::QuotaOp::reserve;
    batch.undecided.assign(batch.awaits_verdict ? batch.calls.size() : 0, 0);
    for (size_t index = 0; !batch.awaits_verdict && index < batch.calls.size(); ++index) {
      const api::QuotaCall& call = batch.calls[index];
      if (call.shard != shard_) continue;
      asked_.calls.push_back(call.op);
      asked_.last_flags = call.flags;
      batch.answers[index].code = api::QuotaCode::ok;
      batch.answers[index].reservation = reservation(shard_, asked_.calls.size());
    }
  }
  bool withdraw(api::WaiterId, api::Ticket, base::Now, api::ShardId) noexcept override {
    return false;
  }
  bool abandon(api::WaiterId, api::Ticket, base::Now, api::ShardId) noexcept override {
    return false;
  }
  bool refund(const api::RefundClaim&, base::Now) noexcept override { return false; }
  void drain(base::Now) noexcept override { ++asked_.drained; }
  void run_due(base::Now) noexcept override {}
  int64_t next_due_ns() const noexcept override { return base::never_ns; }
  std::span<api::Grant> grants() noexcept override { return {}; }
  void keep_grants(size_t) noexcept override {}
  void adopt(policy::QuotaBook&, base::Now) noexcept override { ++asked_.adopted; }
  std::string_view unknown_subject() const noexcept override { return {}; }
  std::deque<api::QuotaCall>& outgoing_calls() noexcept override { return outgoing_; }
  bool has_tries() const noexcept override { return false; }
  void next_try(api::QuotaBatch&) noexcept override {}
  void end_try(const api::QuotaBatch&, base::Now) noexcept override {}
  bool has_claims() const noexcept override { return false; }
  bool has_changes() const noexcept override { return true; }
  void begin_cut(state::StateSink&, const quota::CutStart&) noexcept override {}
  bool hand_over(uint32_t) noexcept override { return false; }
  quota::CutFacts cut_facts() const noexcept override { return {}; }
  void write_all() noexcept override {}
  quota::Restored restore(const quota::StoredState&, base::Now) override { return {}; }
  void drop_moved_quota(std::string_view name, base::Now) noexcept override {
    asked_.dropped.emplace_back(name);
  }
  uint32_t subjects_count() const noexcept override { return 0; }
  uint32_t reservations_count() const noexcept override { return 0; }
  uint32_t waiters_count() const noexcept override { return 0; }
  const quota::Statistics& statistics() const noexcept override { return statistics_; }
  uint64_t reserved_bytes() const noexcept override { return 0; }
  void check_invariants(base::Now) const noexcept override { ++asked_.checked; }

 private:
  // With the verdict on its part the shard's hold ends, which others await.
  void decide_spread(api::QuotaBatch& batch) noexcept {
    const api::Pass pass = batch.pass;
    for (size_t index = 0; index < batch.calls.size(); ++index) {
      api::SpreadCall& call = batch.spread[index];
      const uint8_t place = quota::first_place(batch.calls[index], call, shard_);
      if (place == batch.calls[index].subjects_count) continue;
      const bool applies_verdict = quota::applies_verdict(pass, batch.calls[index], call, shard_);
      if (applies_verdict) asked_.has_hold = false;
      call.holds[place] =
          applies_verdict ? api::SpreadCall::no_hold : api::SpreadCall::without_hold;
    }
    const bool concludes =
        pass == api::Pass::conclude || (pass == api::Pass::ask && batch.is_last_asked);
    if (!concludes) return;
    quota::conclude(batch, 0, statistics_);
    decide_spread(batch);
  }

  Asked& asked_;
  const api::ShardId shard_;
  quota::Statistics statistics_;
  std::deque<api::QuotaCall> outgoing_;
};

}  // namespace sluice::server
