// One shard's quotas: decides the calls that reserve, settle, record and ask, for the subjects of
// this shard.
// Shape:  subjects by name, each with the usage of its limits and a queue of waiters; reservations
//         by id; a timer wheel for lifetimes, wait limits, and when the head of a queue may fit.
// Lives:  as QuotaDecider.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

#include "quota/quota_decider.hpp"

namespace sluice::quota {

struct Options {
  uint32_t shard = 0;
  uint32_t shards = 1;
  uint64_t routing_seed = 0;  // decides which subjects are this shard's
  uint32_t subjects_max = 1'000'000;
  uint32_t reservations_max = 1'000'000;  // open; as many that have ended are remembered
  uint32_t waiters_max = 100'000;
  uint32_t name_bytes_max = 1'024;
  uint32_t step_work = 2'048;  // of one step where many waiters may move: subjects checked
  uint64_t name_seed = 0;      // of the hashes of names and of clients' ids
  uint64_t id_seed = 0;        // of reservations' ids, drawn at each start: ids are not given twice
  uint32_t adopt_work = 2'048;  // of one step on another book: in about tenths of a microsecond
  bool keeps_state = false;     // for the next start: cuts are made
  // In the ids of reservations (proto/reservation_id.hpp); 0: there are no other nodes.
  uint16_t node_slot = 0;
  uint32_t nodes_count = 1;
  // A part whose home is another node outlives it by so much, at most limits::part_slack_ms_max: a
  // home's lifetime begins when all nodes of the call have answered.
  uint32_t node_part_slack_ms = 1'000;
  // Waiters with parts on other nodes are tried so often, at least: reports may be lost, and nodes
  // forget parts that they are not asked about.
  int64_t node_renewal_ns = base::never_ns;
};

class Engine;

class QuotaStore final : public QuotaDecider {
 public:
  explicit QuotaStore(const Options& options);
  ~QuotaStore() override;

  // As in QuotaDecider and api::Decider.
  void decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin = 0) noexcept override;
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin = 0) noexcept override;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin = 0) noexcept override;
  // Cancels the claim's reservation.
  bool refund(const api::RefundClaim& claim, base::Now now) noexcept override;
  void drain(base::Now now) noexcept override;
  void adopt(policy::QuotaBook& book, base::Now now) noexcept override;
  // Ends lifetimes and wait limits, serves queues with a head that may fit, goes on with the
  // adoption of a book, and with what a call that moves many waiters has left to do.
  void run_due(base::Now now) noexcept override;
  int64_t next_due_ns() const noexcept override;
  std::span<api::Grant> grants() noexcept override;
  void keep_grants(size_t count) noexcept override;
  std::string_view unknown_subject() const noexcept override;
  std::deque<api::QuotaCall>& outgoing_calls() noexcept override;
  bool has_tries() const noexcept override;
  void next_try(api::QuotaBatch& batch) noexcept override;
  void end_try(const api::QuotaBatch& batch, base::Now now) noexcept override;
  bool has_claims() const noexcept override;
  bool has_changes() const noexcept override;
  void begin_cut(state::StateSink& sink, const CutStart& start) noexcept override;
  bool hand_over(uint32_t records) noexcept override;
  CutFacts cut_facts() const noexcept override;
  void write_all() noexcept override;
  Restored restore(const StoredState& stored, base::Now now) override;
  void drop_moved_quota(std::string_view name, base::Now now) noexcept override;
  uint32_t subjects_count() const noexcept override;
  uint32_t reservations_count() const noexcept override;
  uint32_t waiters_count() const noexcept override;
  const Statistics& statistics() const noexcept override;
  uint64_t reserved_bytes() const noexcept override;
  void check_invariants(base::Now now) const noexcept override;

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace sluice::quota
