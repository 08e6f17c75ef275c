#include "quota/queue_server.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "quota/answer_limits.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::QuotaCode;
using api::WaiterId;

namespace {

// How many waiters behind the head of a queue are checked for one that may overtake it.
constexpr int overtakers_scanned = 16;

// How many late waiters one step takes, and how many waiters to mark the queues of.
constexpr int late_waiters_max = 64;
constexpr uint32_t marked_max = 64;

// Whether a limit denies the shares for good.
bool is_too_much(const CompiledQuota& quota, const limiter::Shares& shares) noexcept {
  return std::any_of(quota.shapes.begin(), quota.shapes.end(), [&](const auto& shape) {
    if (shape.ceiling != api::Ceiling::number) return shape.ceiling == api::Ceiling::block;
    return shares.of(shape) > shape.amount;
  });
}

}  // namespace

QueueServer::QueueServer(const Options& options, CallClock& clock, WorkBudget& budget,
                         CurrentBook& book, SubjectTable& subjects, ReservationBook& reservations,
                         WaitQueues& queues, SpreadWaiters& spread, Statistics& statistics)
    : clock_(clock),
      budget_(budget),
      book_(book),
      subjects_(subjects),
      reservations_(reservations),
      queues_(queues),
      spread_(spread),
      scan_(clock, budget, book, subjects),
      statistics_(statistics) {
  grants_.reserve(options.waiters_max);
}

// ---------------------------------------------------------------------------- joining and leaving

QuotaCode QueueServer::join(const Newcomer& newcomer, const Request& request,
                            const Obstacle& obstacle, api::QuotaAnswer& answer) noexcept {
  const api::QuotaCall& call = newcomer.call;
  const QuotaCode in_vain = why_no_wait(call, obstacle, clock_.ns());
  if (in_vain != QuotaCode::none) return in_vain;
  const QuotaCode refusal = why_no_waiter(call, request);
  if (refusal != QuotaCode::none) return refusal;
  answer.waiter = queues_.join(request, newcomer);
  // One that heads all its queues, or may overtake the heads, is to be tried when it may fit.
  if (queues_.may_overtake(answer.waiter)) {
    queues_.wake_at(answer.waiter, obstacle.fits_at_ns);
  }
  return QuotaCode::queued;
}

QuotaCode QueueServer::why_no_waiter(const api::QuotaCall& call,
                                     const Request& request) const noexcept {
  // Each waiter has a place for its outcome; outcomes that the worker has not fetched keep theirs.
  const WaitQueues::Pool& pool = queues_.pool();
  const size_t taken = pool.used() + grants_.size();
  const bool is_full = taken >= pool.capacity();
  if (is_full || (call.flags & api::quota_flag::waiters_full) != 0) return QuotaCode::waiters_full;
  for (const SubjectIndex subject : request.named()) {
    if (is_here(subject) && subjects_[subject].waiting >= pool.capacity() - taken) {
      return QuotaCode::subject_waiters_full;
    }
  }
  const bool has_share = (call.flags & api::quota_flag::connection_waiters_full) == 0;
  return has_share ? QuotaCode::none : QuotaCode::connection_waiters_full;
}

// If it may overtake the waiters, they only have to be tried first.
void QueueServer::set_queue_ahead(Obstacle& obstacle,
                                  const LimitedSubjects& limited) const noexcept {
  obstacle.code = QuotaCode::queue_ahead;
  obstacle.fits_at_ns =
      clock_.ns() + (queues_.allow_overtaking(limited) ? base::ns_per_ms : unknown_retry_after_ns);
}

bool QueueServer::withdraw(WaiterId index) noexcept {
  if (!end_wait(index, QuotaCode::withdrawn)) return false;
  serve_marked();
  return true;
}

bool QueueServer::abandon(WaiterId index) noexcept {
  if (queues_[index].stage == Waiter::Stage::tried) {
    queues_[index].is_abandoned = true;
    return withdraw(index);
  }
  spread_.leave_parts(queues_[index]);
  queues_.leave(index);
  serve_marked();
  return true;
}

void QueueServer::leave(WaiterId part) noexcept {
  queues_.leave(part);
  serve_marked();
}

// False: it is being tried, and leaves afterwards unless it was admitted.
bool QueueServer::end_wait(WaiterId index, QuotaCode code) noexcept {
  Waiter& waiter = queues_[index];
  if (waiter.stage == Waiter::Stage::tried) {
    waiter.leaves_as = code;
    return false;
  }
  const int64_t retry_after_ms =
      api::may_retry(code) ? limits::unknown_retry_after_ms : api::retry_never;
  finish(index, {.code = code, .retry_after_ms = retry_after_ms}, no_limited_subjects);
  return true;
}

// The outcome is known: the waiter leaves, and its client gets a grant; if its session shows more,
// with the limits of the limited subjects.
void QueueServer::finish(WaiterId index, const api::QuotaAnswer& outcome,
                         const LimitedSubjects& limited) noexcept {
  const Waiter& waiter = queues_[index];
  grants_.push_back(
      {.ticket = waiter.ticket,
       .origin = waiter.origin,
       .verdict = api::admits(outcome.code) ? api::Verdict::approved : api::Verdict::denied,
       .code = outcome.code,
       .detail = {.retry_after_ms = outcome.retry_after_ms},
       .refund_claim = {.reservation = outcome.reservation}});
  if (!waiter.is_abandoned) ++statistics_.outcomes(waiter.op())[static_cast<size_t>(outcome.code)];
  if (waiter.answer != nullptr) report(*waiter.answer, outcome, waiter.request.shares(), limited);
  // Where it was admitted, its parts have left their queues.
  if (!api::admits(outcome.code)) spread_.leave_parts(waiter);
  queues_.leave(index);
}

void QueueServer::report(api::WaitAnswer& to, const api::QuotaAnswer& outcome,
                         const limiter::Shares& shares, const LimitedSubjects& limited) noexcept {
  to.answer = outcome;
  answer_limits(to.answer, to.limits, limited, shares, ReportedLimits::all,
                {clock_, book_, subjects_, reservations_});
}

// ---------------------------------------------------------------------------------------- serving

void QueueServer::serve(SubjectIndex index) noexcept {
  subjects_.to_serve().add(index);
  serve_marked();
}

// Each try takes a waiter out, or ends the serving of a queue. While the server drains no waiter is
// served.
void QueueServer::serve_queues() noexcept {
  if (drain_at_ != not_draining) return;
  ServeList& to_serve = subjects_.to_serve();
  while (!to_serve.empty() && budget_.may_go_on()) serve_queue(to_serve.take());
}

void QueueServer::serve_queue(SubjectIndex index) noexcept {
  const Subject& subject = subjects_.current(index);
  if (!scan_.look_through(index, [this](WaiterId waiter) { end_if_ruled_out(waiter); })) {
    return subjects_.to_serve().add(index);
  }
  while (subject.has_waiters()) {
    if (!budget_.may_go_on()) return subjects_.to_serve().add(index);
    const WaiterId head = subject.queue.begin()->waiter->index();
    // A head that is behind others in other queues is served when those have moved, unless it may
    // overtake.
    const bool left = queues_.heads_all(head) ? try_head(head) : overtake(head);
    if (!left) break;
  }
  subjects_[index].served_order = clock_.order();
  if (subject.has_waiters()) {
    serve_overtakers(index);
  } else {
    budget_.spend(0);
  }
}

// True: the waiter was served, or can never be, and has left.
bool QueueServer::try_head(WaiterId index) noexcept {
  Waiter& waiter = queues_[index];
  const LimitedSubjects limited = subjects_.limited_subjects(waiter.request.named());
  budget_.spend(waiter.request.subjects_count);
  const limiter::Shares shares = waiter.request.shares();
  const bool denied = is_denied(waiter, limited);
  if (!denied && subjects_fit(limited, shares, clock_.moment())) {
    return admit(index, limited, shares);
  }
  const Obstacle obstacle = find_obstacle(limited, shares, clock_.moment());
  if (denied || obstacle.fits_at_ns == base::never_ns) {
    return end_in_vain(index, limited, obstacle);
  }
  queues_.wake_at(index, obstacle.fits_at_ns);
  return false;
}

// The waiter can never be admitted. False: it stays until its home has asked all shards why.
bool QueueServer::end_in_vain(WaiterId index, const LimitedSubjects& limited,
                              const Obstacle& obstacle) noexcept {
  Waiter& waiter = queues_[index];
  if (waiter.is_spread()) {
    spread_.on_out(waiter);
    return false;
  }
  const bool denied = is_denied(waiter, limited);
  const QuotaCode code = denied ? QuotaCode::unknown_subject : final_code(obstacle);
  finish(index, {.code = code, .retry_after_ms = api::retry_never},
         denied ? no_limited_subjects : limited);
  return true;
}

// Wherever it stands in its queues.
bool QueueServer::end_if_ruled_out(WaiterId index) noexcept {
  const Waiter& waiter = queues_[index];
  const LimitedSubjects limited = subjects_.limited_subjects(waiter.request.named());
  const Obstacle obstacle = find_obstacle(limited, waiter.request.shares(), clock_.moment());
  const bool ruled_out = is_denied(waiter, limited) || obstacle.fits_at_ns == base::never_ns;
  return ruled_out && end_in_vain(index, limited, obstacle);
}

// The head does not fit: waiters behind it may overtake it, as many as the quota allows.
void QueueServer::serve_overtakers(SubjectIndex index) noexcept {
  const Queue& queue = subjects_[index].queue;
  auto at = std::next(queue.begin());
  for (int tried = 0; tried < overtakers_scanned && at != queue.end(); ++tried) {
    if (!queues_.allows_overtaking(subjects_.current(index))) return;
    const WaiterId candidate = at->waiter->index();
    ++at;  // the candidate may leave
    overtake(candidate);
    if (queue.empty()) return;
  }
}

// True: the waiter was served before the heads of queues in which it is behind. If it does not fit,
// it is tried again when it may: the heads may have to wait for longer.
bool QueueServer::overtake(WaiterId index) noexcept {
  const Waiter& waiter = queues_[index];
  budget_.spend(waiter.request.subjects_count);
  if (!queues_.may_overtake(index)) return false;
  const LimitedSubjects limited = subjects_.limited_subjects(waiter.request.named());
  if (is_denied(waiter, limited)) return false;  // it ends when that subject's queue is served
  const limiter::Shares shares = waiter.request.shares();
  if (!subjects_fit(limited, shares, clock_.moment())) {
    const Obstacle obstacle = find_obstacle(limited, shares, clock_.moment());
    if (obstacle.fits_at_ns != base::never_ns) queues_.wake_at(index, obstacle.fits_at_ns);
    return false;
  }
  // The queues that it heads itself then have another head, which it has not overtaken.
  const WaitQueues::SubjectList overtaken = queues_.queues_not_headed(index);
  if (!admit(index, limited, shares)) return false;
  for (const SubjectIndex subject : overtaken) ++subjects_[subject].overtaken;
  return true;
}

// False: the waiter goes on waiting. Either there is no place for another reservation, or other
// shards have to be asked, too.
bool QueueServer::admit(WaiterId index, const LimitedSubjects& limited,
                        const limiter::Shares& shares) noexcept {
  Waiter& waiter = queues_[index];
  const bool needs_place = waiter.is_spread() || waiter.request.needs_place();
  if (needs_place && !reservations_.has_room()) {
    queues_.wake_at(index, clock_.ns() + retry_place_ns);
    return false;
  }
  if (waiter.is_spread()) {
    spread_.on_fits(waiter);
    return false;
  }
  clock_.next_call();
  ++statistics_.waited;
  subjects_.touch(limited);
  if (waiter.request.is_used) {
    charge_used(limited, shares, clock_.moment());
    finish(index, remember(queues_.take_request(index), limited), limited);
  } else {
    charge(limited, shares, clock_.moment());
    finish(index, open(index, limited), limited);
  }
  return true;
}

api::QuotaAnswer QueueServer::open(WaiterId index, const LimitedSubjects& limited) noexcept {
  const Request request = queues_.take_request(index);
  const Reservation& made =
      reservations_.open(request, admission_code(limited), queues_.owner_of(index));
  return {.code = made.admission(),
          .state = made.state,
          .reservation = made.id,
          .lifetime_ms = made.lifetime_ms};
}

api::QuotaAnswer QueueServer::remember(const Request& request,
                                       const LimitedSubjects& limited) noexcept {
  const QuotaCode code = admission_code(limited);
  if (request.id.is_set()) reservations_.remember(request, code);
  return {.code = code};
}

bool QueueServer::is_denied(const Waiter& waiter, const LimitedSubjects& limited) const noexcept {
  return limited.size() < waiter.subjects_here && book_.denies_unknown();
}

// ------------------------------------------------------------------------------- slices of a step

void QueueServer::drain_some() noexcept {
  if (drain_at_ == not_draining) return;
  const WaitQueues::Pool& pool = queues_.pool();
  for (; pool.used() > 0 && drain_at_ < pool.index_end(); ++drain_at_) {
    if (!budget_.may_go_on()) return;
    budget_.spend(0);
    if (!pool.holds(drain_at_)) continue;
    const Waiter& waiter = pool[drain_at_];
    if (waiter.is_part || waiter.stage == Waiter::Stage::joining) continue;
    end_wait(drain_at_, QuotaCode::draining);
  }
  drain_at_ = not_draining;
}

void QueueServer::mark_some() noexcept {
  if (drain_at_ != not_draining) return;  // their outcome is `draining`
  const WaitQueues::Pool& pool = queues_.pool();
  for (uint32_t count = 0; count < marked_max && mark_at_ < pool.index_end(); ++count, ++mark_at_) {
    if (!budget_.may_go_on()) return;
    if (pool.holds(mark_at_)) mark(mark_at_);
  }
  if (mark_at_ >= pool.index_end()) mark_at_ = nothing_to_mark;
}

// New rules may deny what has no quota: a subject that has none now, or had none from the start,
// and so has no queue.
void QueueServer::mark(WaiterId index) noexcept {
  const Waiter& waiter = queues_[index];
  budget_.spend(0);
  queues_.mark(waiter.request.named());
  if (waiter.stage == Waiter::Stage::joining || !book_.denies_unknown()) return;
  budget_.spend(waiter.request.subjects_count);
  const LimitedSubjects limited = subjects_.limited_subjects(waiter.request.named());
  if (is_denied(waiter, limited)) end_in_vain(index, limited, {});
}

void QueueServer::begin_late_wait(WaiterId index) noexcept {
  Waiter& waiter = queues_[index];
  if (waiter.has_parts()) return spread_.on_late(waiter);
  waiter.limit_order = clock_.order();
  queues_.mark(waiter.request.named());
  late_waiters_.push_back(waiter);
}

void QueueServer::end_late_waits() noexcept {
  if (drain_at_ != not_draining) return;  // their outcome is `draining`
  for (int tried = 0; tried < late_waiters_max && !late_waiters_.empty(); ++tried) {
    if (!budget_.may_go_on()) return;
    budget_.spend(0);
    const Waiter& waiter = late_waiters_.front();
    if (queues_.is_to_be_tried(waiter, waiter.limit_order)) {
      late_waiters_.splice(late_waiters_.end(), late_waiters_, late_waiters_.begin());
      continue;
    }
    end_late_wait(TimerTag::of(waiter.limit).index);
  }
}

// The answer shows the limits as they are after the waiter has left.
void QueueServer::end_late_wait(WaiterId index) noexcept {
  api::WaitAnswer* const to = std::exchange(queues_[index].answer, nullptr);
  const Request request = queues_[index].request;
  finish(index, {.code = QuotaCode::wait_limit}, no_limited_subjects);
  const size_t place = grants_.size() - 1;
  serve_marked();
  const LimitedSubjects limited = subjects_.limited_subjects(request.named());
  Obstacle obstacle = find_obstacle(limited, request.shares(), clock_.moment());
  if (obstacle.code == QuotaCode::ok && queues_.must_wait(limited, api::behind_all))
    set_queue_ahead(obstacle, limited);
  const bool fits = obstacle.code == QuotaCode::ok;
  const int64_t retry_after_ms = fits ? 0 : retry_after_ms_of(obstacle.code, obstacle, clock_.ns());
  grants_[place].detail.retry_after_ms = retry_after_ms;
  if (to == nullptr) return;
  report(*to, {.code = QuotaCode::wait_limit, .retry_after_ms = retry_after_ms}, request.shares(),
         limited);
}

// -------------------------------------------------------------------------------------- tries

// The shards have been asked for a waiter of theirs. The batch has the answer, and the reports of
// all of them.
uint64_t QueueServer::end_try(const api::QuotaBatch& batch) noexcept {
  const api::SpreadCall& spread = batch.spread.front();
  const api::QuotaAnswer& answer = batch.answers.front();
  const WaiterId index = spread.waiters[0];
  Waiter& waiter = queues_[index];
  waiter.stage = Waiter::Stage::waiting;
  const bool is_admitted = api::admits(answer.code);
  const uint64_t orphan = is_admitted && waiter.is_abandoned ? answer.reservation : 0;
  if (answer.code != QuotaCode::queued) {
    if (spread.is_unconfirmed) spread_.forget_shards(waiter);
    if (is_admitted) {
      ++statistics_.waited;
      count_overtaken(index);
    }
    lend(std::exchange(waiter.answer, nullptr), answer, batch);
    finish(index, answer, no_limited_subjects);
  } else if (waiter.leaves_as != QuotaCode::none) {
    end_wait(index, waiter.leaves_as);
  } else {
    spread_.go_on(waiter, spread.fit_bits);
  }
  serve_marked();
  return orphan;
}

void QueueServer::count_overtaken(WaiterId index) noexcept {
  for (const SubjectIndex subject : queues_.queues_not_headed(index))
    ++subjects_[subject].overtaken;
}

void QueueServer::lend(api::WaitAnswer* to, const api::QuotaAnswer& answer,
                       const api::QuotaBatch& batch) noexcept {
  if (to == nullptr) return;
  to->answer = answer;
  to->answer.first_limit = 0;
  const auto first = batch.limits.begin() + answer.first_limit;
  to->limits.assign(first, first + answer.limits_count);
}

// No queue has a waiter that the subject's quota can never admit, unless the queue is still to be
// looked through. Of one that other shards have, too, the home knows.
void QueueServer::check_invariants() const noexcept {
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    const Subject& subject = subjects_[index];
    ASSERT(!subject.to_scan || subject.to_serve);
    if (subject.to_scan || scan_.is_under_way(index) || subject.quota == nullptr) continue;
    for (const QueuePlace& place : subject.queue) {
      const Waiter& waiter = *place.waiter;
      ASSERT(waiter.is_spread() || !is_too_much(*subject.quota, waiter.request.shares()));
    }
  }
}

bool QueueServer::has_work() const noexcept {
  const WaitQueues::Pool& pool = queues_.pool();
  if (mark_at_ < pool.index_end() && pool.used() > 0) return true;
  return !subjects_.to_serve().empty() || drain_at_ != not_draining || !late_waiters_.empty();
}

}  // namespace sluice::quota
