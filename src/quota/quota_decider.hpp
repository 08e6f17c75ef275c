// The interface through which a worker asks the store of its shard's quotas.
// Flow:   a batch of calls -> decide(), in order -> answers in the batch; outcomes of waiters come
//         out as grants (api/decider.hpp).
// Shape:  QuotaStore is the implementation that is shipped.
// Units:  as in api/quota.hpp.
// Errors: none: every outcome is a QuotaCode. When full: subjects_full, reservations_full,
//         waiters_full.
// Lives:  one thread only; reads no clock, draws no random number.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "api/decider.hpp"
#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "policy/quota_book.hpp"
#include "quota/cut.hpp"
#include "quota/stored_state.hpp"
#include "state/state_sink.hpp"

namespace sluice::quota {

struct Statistics {
  // By outcome; of a waiter both `queued` and its outcome.
  using Outcomes = std::array<uint64_t, api::quota_codes_count>;

  Outcomes reserves{};
  Outcomes consumes{};
  uint64_t settled = 0;
  uint64_t cancelled = 0;
  uint64_t expired = 0;
  uint64_t recorded = 0;
  uint64_t waited = 0;            // admitted after a wait
  uint64_t tokens_refunded = 0;   // input and output
  uint64_t unknown_subjects = 0;  // times that a call named one
  uint64_t subjects_forgotten = 0;

  // Of a call that asks for admission.
  Outcomes& outcomes(api::QuotaOp op) noexcept {
    return op == api::QuotaOp::consume ? consumes : reserves;
  }
};

class QuotaDecider : public api::Decider {
 public:
  // Decides the calls of the batch that belong to this shard, in their order.
  virtual void decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept = 0;

  // Adopts a book: its quotas hold at once for every subject that a call names; run_due() brings
  // the other subjects to it in slices. The book outlives the next adopt(). A limit that changes
  // only in its amount keeps its usage.
  virtual void adopt(policy::QuotaBook& book, base::Now now) noexcept = 0;

  // A subject without a quota that the last decide() was asked for; empty: there was none. Valid
  // until its batch changes.
  virtual std::string_view unknown_subject() const noexcept = 0;

  // Calls of the store's own, each for the shard that it names: the worker takes them out, first
  // come, first taken.
  virtual std::deque<api::QuotaCall>& outgoing_calls() noexcept = 0;

  // Waiters of several shards that may fit on all of them: the worker has each tried, in a batch of
  // its own.
  virtual bool has_tries() const noexcept = 0;
  virtual void next_try(api::QuotaBatch& batch) noexcept = 0;
  virtual void end_try(const api::QuotaBatch& batch, base::Now now) noexcept = 0;

  // Whether calls that have no verdict yet claim anything.
  virtual bool has_claims() const noexcept = 0;

  // ---- what survives a restart, with Options::keeps_state
  // Whether anything has changed since the last cut.
  virtual bool has_changes() const noexcept = 0;
  // The instant of a cut: until hand_over() returns false, the sink gets the records of what has
  // changed since the last one, as of now, and of a part of everything else.
  virtual void begin_cut(state::StateSink& sink, const CutStart& start) noexcept = 0;
  // Writes about so many of them. Calls that change what is not written yet have it written, too.
  virtual bool hand_over(uint32_t records) noexcept = 0;
  virtual CutFacts cut_facts() const noexcept = 0;
  // The next cut has everything that lives: what was written before may be lost.
  virtual void write_all() noexcept = 0;

  // Continues where an earlier start of the server has ended; before anything else. Throws when
  // memory cannot be had.
  virtual Restored restore(const StoredState& stored, base::Now now) = 0;

  // One of Restored::moved_quotas: its owner has it, and the next cut takes it out of the state.
  virtual void drop_moved_quota(std::string_view name, base::Now now) noexcept = 0;

  virtual uint32_t subjects_count() const noexcept = 0;
  virtual uint32_t reservations_count() const noexcept = 0;  // open
  virtual const Statistics& statistics() const noexcept = 0;
};

}  // namespace sluice::quota
