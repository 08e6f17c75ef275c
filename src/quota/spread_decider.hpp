// Decides this shard's parts of calls whose subjects several shards have.
// Flow:   look() -> ask() at each shard: a part that fits is held -> conclude() at the last one: a
//         verdict for each call -> apply(): holds become charges of that moment, or are dropped.
// Shape:  what shards report to one another about a call is its api::SpreadCall. A call waits for a
//         verdict while holds, or claims, of other calls are in its way; then it holds nothing
//         itself, but has a claim (Claims) at each shard where it was asked for. A call that may
//         wait has a place for a waiter meanwhile (JoiningWaiters); a waiter that is tried
//         (SpreadWaiters) has its places already.
// Errors: none: every outcome is a QuotaCode, with the precedence that one shard would give it.
// Lives:  one thread only; what it knows about a batch lies in the batch.
// Source: docs/adr/0016-calls-over-several-shards.md, docs/adr/0019-undecided-calls-have-claims.md.
#pragma once

#include "api/quota.hpp"
#include "quota/answer_sources.hpp"
#include "quota/call_group.hpp"
#include "quota/call_resolver.hpp"
#include "quota/claims.hpp"
#include "quota/joining_waiters.hpp"
#include "quota/queue_server.hpp"
#include "quota/quota_store.hpp"
#include "quota/repeated_calls.hpp"
#include "quota/reservation_book.hpp"
#include "quota/spread_part.hpp"
#include "quota/subject_table.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

class SpreadDecider {
 public:
  SpreadDecider(const Options& options, CallClock& clock, CurrentBook& book, SubjectTable& subjects,
                ReservationBook& reservations, Claims& claims, WaitQueues& queues,
                JoiningWaiters& joining, QueueServer& server, RepeatedCalls& repeats,
                CallResolver& resolver, CallGroup& group, Statistics& statistics) noexcept
      : shard_(static_cast<api::ShardId>(options.shard)),
        clock_(clock),
        book_(book),
        subjects_(subjects),
        reservations_(reservations),
        claims_(claims),
        queues_(queues),
        joining_(joining),
        server_(server),
        repeats_(repeats),
        resolver_(resolver),
        group_(group),
        statistics_(statistics) {}

  // Does this shard's share of the batch's pass. Sets `awaits_verdict` if an `await` has not ended.
  // `origin`: of the tickets.
  void decide(api::QuotaBatch& batch, api::ShardId origin) noexcept;

 private:
  using Part = SpreadPart;

  void ask_all(api::QuotaBatch& batch) noexcept;
  void apply_all(api::QuotaBatch& batch) noexcept;
  void forget(api::QuotaBatch& batch) noexcept;
  void look(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void ask(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  bool fits(Part& part, const SubjectHashes& hashes) noexcept;
  bool waiter_fits(Part& part) noexcept;
  void forget_gone_waiter(Part& part) const noexcept;
  bool limits_fit(Part& part) noexcept;
  bool awaits_verdict(Part& part, const limiter::Shares& shares, bool must_wait) noexcept;
  bool is_refused_for_good(const Part& part, const limiter::Shares& shares) const noexcept;
  bool has_room(Part& part) noexcept;
  void await(api::QuotaBatch& batch) noexcept;
  void apply(api::QuotaBatch& batch, size_t index) noexcept;
  bool find(Part& part, const SubjectHashes& hashes) noexcept;
  void count_limits(Part& part) noexcept;
  bool find_repeat(Part& part) noexcept;
  bool was_charged(Part& part) noexcept;
  void set_awaits_others(api::SpreadCall& spread) const noexcept;
  void hold(Part& part) noexcept;
  bool is_behind_own(Part& part) noexcept;
  bool is_behind_claims(Part& part, const limiter::Shares& shares) noexcept;
  bool overtakes_beside_holds(Part& part) noexcept;
  bool must_wait(Part& part) noexcept;
  void note_unfit(Part& part, int64_t fits_at_ns) noexcept;
  void find_unheld(Part& part) noexcept;
  void admit(Part& part, Reservation& held) noexcept;
  void open(Part& part, Reservation& held) noexcept;
  void remember(const Part& part, Reservation& held) noexcept;
  void drop(Part& part, Reservation& held) noexcept;
  void record(Part& part) noexcept;
  void report(Part& part, bool denies) noexcept;
  AnswerSources sources() noexcept { return {clock_, book_, subjects_, reservations_}; }

  const api::ShardId shard_;
  CallClock& clock_;
  CurrentBook& book_;
  SubjectTable& subjects_;
  ReservationBook& reservations_;
  Claims& claims_;
  WaitQueues& queues_;
  JoiningWaiters& joining_;
  QueueServer& server_;
  RepeatedCalls& repeats_;
  CallResolver& resolver_;
  CallGroup& group_;
  Statistics& statistics_;
  api::ShardId origin_ = 0;      // of the batch
  uint32_t holds_of_batch_ = 0;  // that is being asked for, on this shard
};

}  // namespace sluice::quota
