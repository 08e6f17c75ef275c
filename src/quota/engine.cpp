#include "quota/engine.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "quota/timer_tag.hpp"

namespace sluice::quota {
namespace {

// Timers that one step fires.
constexpr int timers_max = 1'024;

}  // namespace

Engine::Engine(const Options& options)
    : options_(options),
      budget_(options.step_work),
      log_(options_),
      quota_changes_(options_.keeps_state),
      subjects_(options_, clock_, book_, log_, statistics_),
      adoption_(options_, book_, subjects_),
      owners_(options.reservations_max),
      client_ids_(options.reservations_max, options.waiters_max),
      reservations_(options_, clock_, subjects_, wheel_, owners_, client_ids_, log_),
      claims_(reservations_),
      cut_writer_(clock_, subjects_, reservations_, log_),
      queues_(options_, clock_, subjects_, wheel_, owners_, client_ids_),
      spread_waiters_(options_, clock_, queues_, outgoing_),
      repeats_(client_ids_, reservations_, queues_),
      server_(options_, clock_, budget_, book_, subjects_, reservations_, queues_, spread_waiters_,
              statistics_),
      joining_(reservations_, queues_, spread_waiters_, server_),
      lifecycle_(clock_, budget_, subjects_, reservations_, queues_, outgoing_, statistics_),
      resolver_(options_, book_, subjects_, statistics_),
      group_(clock_, subjects_, reservations_),
      undecided_(clock_, subjects_, reservations_, queues_, repeats_, claims_),
      spread_(options_, clock_, book_, subjects_, reservations_, claims_, queues_, joining_,
              server_, repeats_, resolver_, group_, statistics_) {}

bool Engine::withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                      api::ShardId origin) noexcept {
  if (!queues_.is_waiting(waiter, ticket, origin)) return false;
  clock_.begin(now);
  return server_.withdraw(waiter);
}

bool Engine::abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::ShardId origin) noexcept {
  if (!queues_.is_waiting(waiter, ticket, origin)) return false;
  clock_.begin(now);
  return server_.abandon(waiter);
}

void Engine::end_try(const api::QuotaBatch& batch, base::Now now) noexcept {
  clock_.begin(now);
  const uint64_t orphan = server_.end_try(batch);
  // Not all that its connection has bound: that of a client of another node may still be there, if
  // only the link is gone.
  if (orphan != 0 && lifecycle_.end_if_bound(orphan)) server_.serve_marked();
}

bool Engine::has_changes() const noexcept {
  return log_.has_changes() || quota_changes_.has_any() || cut_writer_.has_more();
}

void Engine::begin_cut(state::StateSink& sink, const CutStart& start) noexcept {
  cut_writer_.begin(sink, start);
  quota_changes_.write(sink);
}

void Engine::write_all() noexcept {
  cut_writer_.write_all();
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    const Subject& subject = subjects_[index];
    if (subject.source != api::QuotaSource::run_time || subject.quota == nullptr) continue;
    const std::string_view name(subject.name, subject.name_bytes);
    quota_changes_.put(name, subject.quota->quota, clock_.moment().wall_ns);
  }
}

bool Engine::refund(uint64_t id, base::Now now) noexcept {
  clock_.begin(now);
  api::QuotaAnswer answer;
  const api::QuotaCall call{
      .op = api::QuotaOp::cancel, .flags = api::quota_flag::undelivered, .reservation = id};
  const ReservationLifecycle::Ended ended = lifecycle_.cancel(call, answer);
  ASSERT(ended != ReservationLifecycle::Ended::with_parts);  // WaiterDelivery cancels those
  if (ended == ReservationLifecycle::Ended::whole) server_.serve_marked();
  return answer.code == api::QuotaCode::ok;
}

void Engine::drain(base::Now now) noexcept {
  clock_.begin(now);
  server_.begin_drain();
  server_.drain_some();
}

void Engine::adopt(policy::QuotaBook& book, base::Now now) noexcept {
  clock_.begin(now);
  book_.adopt(book);
  server_.begin_marking_all();
  adoption_.begin();
  adoption_.run_slice();
}

// Each part has its own share of work, so that lifetimes and wait limits end however many queues
// are to be served.
void Engine::run_due(base::Now now) noexcept {
  clock_.begin(now);
  adoption_.run_slice();
  budget_.refill();
  lifecycle_.expire_bound();
  budget_.refill();
  fire_timers();
  spread_waiters_.renew_due();
  budget_.refill();
  server_.drain_some();
  server_.mark_some();
  server_.serve_marked();
  budget_.refill();
  server_.end_late_waits();
  budget_.refill();  // for the calls until the next step
}

void Engine::fire_timers() noexcept {
  wheel_.advance(clock_.ms());
  for (int fired = 0; fired < timers_max && budget_.may_go_on(); ++fired) {
    const base::Timer* const timer = wheel_.pop_due();
    if (timer == nullptr) return;
    budget_.spend(0);
    clock_.next_call();
    const TimerTag owner = TimerTag::of(*timer);
    switch (owner.kind) {
      case TimerTag::lifetime:
        lifecycle_.end_lifetime(reservations_[owner.index]);
        break;
      case TimerTag::wait_limit:
        server_.begin_late_wait(owner.index);
        break;
      case TimerTag::wake:
        on_wake(queues_[owner.index]);
        break;
    }
  }
}

// Queues are served once for all that wake.
void Engine::on_wake(Waiter& waiter) noexcept {
  queues_.mark(waiter.request.named());
  if (!waiter.has_queue()) spread_waiters_.on_fits(waiter);
}

int64_t Engine::next_due_ns() const noexcept {
  const bool has_work = adoption_.is_under_way() || server_.has_work() ||
                        reservations_.bindings().has_any_to_expire();
  if (has_work) return 0;
  return std::min(base::due_ns(wheel_.next_due_ms()), spread_waiters_.next_due_ns());
}

uint64_t Engine::reserved_bytes() const noexcept {
  return subjects_.reserved_bytes() + owners_.reserved_bytes() + client_ids_.reserved_bytes() +
         reservations_.reserved_bytes() + queues_.reserved_bytes() + log_.reserved_bytes();
}

void Engine::check_invariants(base::Now) const noexcept {
  subjects_.check_invariants();
  reservations_.check_invariants();
  claims_.check_invariants();
  queues_.check_invariants();
  server_.check_invariants();
}

}  // namespace sluice::quota
