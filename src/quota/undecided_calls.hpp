// Calls of one shard each that are decided later: they await a verdict on another call.
// Flow:   the engine is about to decide a call, or to refuse it -> a function here: true, it awaits
//         a verdict -> the batch has it in its list, and it has a claim -> with the verdict the
//         worker has the batch decided again -> take_list().
// Errors: none.
// Lives:  one thread only.
// Source: docs/adr/0016-calls-over-several-shards.md, docs/adr/0019-undecided-calls-have-claims.md.
#pragma once

#include <cstdint>
#include <vector>

#include "api/quota.hpp"
#include "quota/call_clock.hpp"
#include "quota/claims.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/repeated_calls.hpp"
#include "quota/request.hpp"
#include "quota/subject_table.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

struct AskedCall {
  api::QuotaBatch& batch;
  const size_t index;
  const LimitedSubjects& limited;
  const Request& request;
};

class UndecidedCalls {
 public:
  UndecidedCalls(const CallClock& clock, const SubjectTable& subjects,
                 ReservationBook& reservations, const WaitQueues& queues,
                 const RepeatedCalls& repeats, Claims& claims) noexcept
      : clock_(clock),
        subjects_(subjects),
        reservations_(reservations),
        queues_(queues),
        repeats_(repeats),
        claims_(claims) {}

  // Whether any call has a claim. Without one, calls are decided in any order.
  bool have_claims() const noexcept { return claims_.has_any(); }

  // An earlier call of its connection, or of its batch, is undecided and shares a subject.
  bool is_behind_own(const AskedCall& call);
  // The same of a call that no limits decide: it is about a reservation, or a subject.
  bool is_behind_own(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes);
  // An earlier call under its id has no verdict yet.
  bool awaits_first(const AskedCall& call);
  // It fits, but takes what an earlier call claims.
  bool is_behind_claims(const AskedCall& call);
  // It does not fit, and might, were it not for holds.
  bool awaits_holds(const AskedCall& call, bool has_waiters_ahead);
  // There is no place for another reservation, and a hold may free one.
  bool awaits_place(const AskedCall& call);
  // Holds may use up what may overtake waiters.
  bool awaits_overtaking(const AskedCall& call) {
    return queues_.wait_for_holds(call.limited) && leave(call);
  }

  // The calls of this shard in the batch that have no answer yet; their claims end.
  const std::vector<uint32_t>& take_list(api::QuotaBatch& batch, api::ShardId shard);
  // They were decided, or left undecided again.
  void end_list(api::QuotaBatch& batch) const noexcept;

 private:
  bool leave(const AskedCall& call);
  void leave(api::QuotaBatch& batch, size_t index, std::span<const SubjectIndex> subjects,
             const api::Amounts& amounts);

  const CallClock& clock_;
  const SubjectTable& subjects_;
  ReservationBook& reservations_;
  const WaitQueues& queues_;
  const RepeatedCalls& repeats_;
  Claims& claims_;
  std::vector<uint32_t> list_;
  size_t claims_taken_ = 0;  // with the list
};

}  // namespace sluice::quota
