// Lines: who waits for a subject, who is served, and when somebody has to look again.
// Shape:  a request stands in the line of every subject it names, and is served when it heads all
//         of them. All lines are in the order of arrival, so there is always one that does.
#include <algorithm>

#include "base/assert.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaCode;
using api::Verdict;
using api::WaiterId;

namespace {

// How many behind the head are looked at for one that may pass it.
constexpr int overtakers_looked_at = 16;

// What a line waits for may come sooner than was foreseen (a wall clock that jumps): looked at
// anew.
constexpr int64_t look_again_ns = 60 * base::ns_per_s;

// Timers, waiters whose limit has passed, and waiters whose subjects may have old rules, that one
// run_due() takes.
constexpr int timers_max = 1'024;
constexpr int late_waiters_max = 64;
constexpr uint32_t refreshed_max = 64;

}  // namespace

// Somebody stands in a line of the party who must not be passed.
// Who may pass, but for somebody's turn, has one itself when that has been looked at.
bool Engine::is_behind(const Party& party) noexcept {
  bool must = false;
  for (const Member& member : party) {
    if (member.index == no_subject) continue;
    const Subject& subject = subjects_[member.index];
    if (!subject.has_line() || may_be_passed(subject)) continue;
    if (lets_pass(subject)) subjects_.to_serve().add(member.index);
    must = true;
  }
  return must;
}

// The head of its line has no turn that is still to be looked at: nor one that time brings, unless
// all timers are fired.
bool Engine::may_be_passed(const Subject& subject) const noexcept {
  return lets_pass(subject) && !may_have_turn(waiters_[waiter_of(subject.first_waiter)]) &&
         wheel_.next_due_ms() > clock_.ms();
}

// Of a subject with a line.
bool Engine::lets_pass(const Subject& subject) const noexcept {
  return subject.quota != nullptr && subject.overtaken < subject.quota->quota.overtakers_max;
}

// The party was admitted past the heads of its lines.
void Engine::pass(const Party& party) noexcept {
  for (const Member& member : party) {
    if (subjects_[member.index].has_line()) ++subjects_[member.index].overtaken;
  }
}

// Returns `queued`, or why it cannot wait.
QuotaCode Engine::join(const api::QuotaCall& call, const Request& request, const Obstacle& against,
                       api::CoreId origin, api::QuotaAnswer& answer) noexcept {
  if (against.fits_at_ns == base::never_ns) return against.code;
  if ((call.flags & api::quota_flag::draining) != 0) return QuotaCode::draining;
  if ((call.flags & api::quota_flag::waiters_full) != 0) return QuotaCode::waiters_full;
  const int64_t wait_ns = int64_t{call.wait_ms_max} * base::ns_per_ms;
  if (wait_ns != 0 && against.earliest_ns > clock_.ns() + wait_ns) {
    return QuotaCode::deadline_unmeetable;
  }
  // Each has a place for its outcome, which somebody may not have fetched yet.
  if (waiters_.used() + grants_.size() >= waiters_.capacity()) return QuotaCode::waiters_full;
  const WaiterId index = waiters_.take(uint64_t{0}, uint64_t{0});
  Waiter& waiter = waiters_[index];
  waiter.limit.owner = TimerOwner{TimerOwner::wait_limit, index}.bits();
  waiter.wake.owner = TimerOwner{TimerOwner::wake, index}.bits();
  waiter.request = request;
  waiter.ticket = call.ticket;
  waiter.origin = origin;
  waiter.owner = owners_.keep(call.owner);
  if (request.id.is_set()) client_ids_.add(request.id, {.index = index, .is_waiter = true});
  for (uint8_t place = 0; place < request.subjects_count; ++place) {
    if (request.subjects[place] == no_subject) continue;
    Subject& subject = subjects_[request.subjects[place]];
    waiter.before[place] = subject.last_waiter;
    waiter.behind[place] = no_link;
    Link& end = subject.last_waiter;
    if (end == no_link) {
      subject.first_waiter = link(index, place);
      subject.overtaken = 0;
    } else {
      waiters_[waiter_of(end)].behind[place_of(end)] = link(index, place);
    }
    end = link(index, place);
    ++subject.waiting;
  }
  if (wait_ns != 0) wheel_.schedule(waiter.limit, base::ceil_ms(clock_.ns() + wait_ns));
  answer.waiter = index;
  // Who heads all its lines, or may pass those that do, has to be looked at when it may fit.
  if (may_overtake(waiter, index)) wake_at(waiter, against.fits_at_ns);
  return QuotaCode::queued;
}

void Engine::wake_at(Waiter& waiter, int64_t fits_at_ns) noexcept {
  wheel_.schedule(waiter.wake, base::ceil_ms(std::min(fits_at_ns, clock_.ns() + look_again_ns)));
}

bool Engine::heads_all(const Waiter& waiter, WaiterId index) noexcept {
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    const SubjectIndex subject = waiter.request.subjects[place];
    if (subject != no_subject && subjects_[subject].first_waiter != link(index, place))
      return false;
  }
  return true;
}

// Takes the waiter out of all its lines, and marks those where somebody comes nearer to a turn.
void Engine::leave(WaiterId index) noexcept {
  Waiter& waiter = waiters_[index];
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    const SubjectIndex subject_index = waiter.request.subjects[place];
    if (subject_index == no_subject) continue;
    Subject& subject = subjects_[subject_index];
    const Link before = waiter.before[place];
    const Link behind = waiter.behind[place];
    if (before == no_link) {
      subject.first_waiter = behind;
      subject.overtaken = 0;
    } else {
      waiters_[waiter_of(before)].behind[place_of(before)] = behind;
    }
    if (behind == no_link) {
      subject.last_waiter = before;
    } else {
      waiters_[waiter_of(behind)].before[place_of(behind)] = before;
    }
    --subject.waiting;
    if (subject.has_line() && (before == no_link || lets_pass(subject)))
      subjects_.to_serve().add(subject_index);
  }
  if (waiter.request.id.is_set())
    client_ids_.remove(waiter.request.id, {.index = index, .is_waiter = true});
  base::TimerWheel::cancel(waiter.limit);
  base::TimerWheel::cancel(waiter.wake);
  owners_.drop(waiter.owner);
  waiters_.give_back(index);
}

// Its outcome is known: it leaves, and its client is told.
void Engine::settle_waiter(WaiterId index, Verdict verdict, uint64_t reservation) noexcept {
  const Waiter& waiter = waiters_[index];
  grants_.push_back({.ticket = waiter.ticket,
                     .origin = waiter.origin,
                     .verdict = verdict,
                     .detail = {},
                     .permit = {.reservation = reservation},
                     .quota = true});
  QuotaCode code = QuotaCode::exceeds_limit;
  if (verdict == Verdict::approved) code = QuotaCode::ok;
  if (verdict == Verdict::wait_limit) code = QuotaCode::wait_limit;
  if (verdict == Verdict::withdrawn) code = QuotaCode::withdrawn;
  if (verdict == Verdict::draining) code = QuotaCode::draining;
  ++statistics_.reserves[static_cast<size_t>(code)];
  leave(index);
}

void Engine::mark_lines(const Waiter& waiter) noexcept {
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    const SubjectIndex subject = waiter.request.subjects[place];
    if (subject != no_subject) subjects_.to_serve().add(subject);
  }
}

// One of its lines is still to be served, and was not since then.
bool Engine::may_have_turn(const Waiter& waiter, uint64_t since_order) const noexcept {
  const auto& subjects = waiter.request.subjects;
  return std::any_of(subjects.begin(), subjects.begin() + waiter.request.subjects_count,
                     [&](SubjectIndex index) {
                       if (index == no_subject) return false;
                       const Subject& subject = subjects_[index];
                       return subject.to_serve && subject.served_order < since_order;
                     });
}

void Engine::serve(SubjectIndex index) noexcept {
  subjects_.to_serve().add(index);
  serve_marked();
}

// Serving one line may make others move: until none does, or this step has done enough. Each turn
// takes a waiter out, or ends a line's turn. Those who are told that the server drains are not
// served.
void Engine::serve_marked() noexcept {
  if (drain_at_ != not_draining) return;
  while (!subjects_.to_serve().empty() && budget_.may_go_on())
    serve_line(subjects_.to_serve().take());
}

void Engine::serve_line(SubjectIndex index) noexcept {
  while (subjects_[index].has_line()) {
    if (!budget_.may_go_on()) return;  // whoever left has marked it again
    const WaiterId head = waiter_of(subjects_[index].first_waiter);
    // One that is behind in other lines is served when they have moved, if it may not pass.
    if (!(heads_all(waiters_[head], head) ? try_head(head) : overtake(head))) break;
  }
  subjects_[index].served_order = clock_.order();
  if (subjects_[index].has_line()) {
    let_overtake(index);
  } else {
    budget_.spend(0);
  }
}

// True: it was served, or can never be, and has left.
bool Engine::try_head(WaiterId index) noexcept {
  Waiter& waiter = waiters_[index];
  const Party party = party_of(waiter.request);
  budget_.spend(waiter.request.subjects_count);
  const limiter::Shares shares(waiter.request.amounts);
  const bool denied = is_denied(waiter, party);
  if (!denied && party_fits(party, shares, clock_.moment()))
    return serve_waiter(index, party, shares);
  const Obstacle against = find_obstacle(party, shares, clock_.moment());
  if (denied || against.fits_at_ns == base::never_ns) {
    settle_waiter(index, Verdict::never_fits, 0);
    return true;
  }
  wake_at(waiter, against.fits_at_ns);
  return false;
}

bool Engine::is_denied(const Waiter& waiter, const Party& party) const noexcept {
  return party.size() < waiter.request.subjects_count && book_.denies_unknown();
}

// False: no place for another reservation; it goes on waiting.
bool Engine::serve_waiter(WaiterId index, const Party& party,
                          const limiter::Shares& shares) noexcept {
  Waiter& waiter = waiters_[index];
  if (!reservations_.has_room()) {
    wake_at(waiter, clock_.ns() + base::ns_per_s);
    return false;
  }
  clock_.next_call();
  if (waiter.request.id.is_set()) {
    // The id goes over to the reservation.
    client_ids_.remove(waiter.request.id, {.index = index, .is_waiter = true});
  }
  charge(party, shares, clock_.moment());
  const Reservation& made =
      reservations_.open(waiter.request, admission_code(party), owners_.at(waiter.owner));
  waiter.request.id = {};
  ++statistics_.waited;
  settle_waiter(index, Verdict::approved, made.id);
  return true;
}

// The head does not fit: some behind it may pass, as many as the quota allows.
void Engine::let_overtake(SubjectIndex index) noexcept {
  Link at = subjects_[index].first_waiter;
  at = waiters_[waiter_of(at)].behind[place_of(at)];
  for (int looked_at = 0; looked_at < overtakers_looked_at && at != no_link; ++looked_at) {
    if (!lets_pass(subjects_.current(index))) return;
    const WaiterId candidate = waiter_of(at);
    at = waiters_[candidate].behind[place_of(at)];
    overtake(candidate);
    if (!subjects_[index].has_line()) return;
  }
}

// True: it was served before the heads of lines in which it stands behind. If it does not fit, it
// is looked at again when it may: the heads may have to wait for longer.
bool Engine::overtake(WaiterId index) noexcept {
  Waiter& waiter = waiters_[index];
  budget_.spend(waiter.request.subjects_count);
  if (!may_overtake(waiter, index)) return false;
  const Party party = party_of(waiter.request);
  if (is_denied(waiter, party)) return false;  // told so when it is a head
  const limiter::Shares shares(waiter.request.amounts);
  if (!party_fits(party, shares, clock_.moment())) {
    const Obstacle against = find_obstacle(party, shares, clock_.moment());
    if (against.fits_at_ns != base::never_ns) wake_at(waiter, against.fits_at_ns);
    return false;
  }
  // What it heads itself has another head then.
  std::array<SubjectIndex, limits::call_subjects_max> passed;
  const uint32_t passed_count = lines_passed_by(index, passed);
  if (!serve_waiter(index, party, shares)) return false;
  for (uint32_t line = 0; line < passed_count; ++line) ++subjects_[passed[line]].overtaken;
  return true;
}

uint32_t Engine::lines_passed_by(WaiterId index, std::span<SubjectIndex> lines) const noexcept {
  const Request& request = waiters_[index].request;
  uint32_t count = 0;
  for (uint8_t place = 0; place < request.subjects_count; ++place) {
    const SubjectIndex subject = request.subjects[place];
    if (subject == no_subject || subjects_[subject].first_waiter == link(index, place)) continue;
    lines[count++] = subject;
  }
  return count;
}

// Every line in which it stands behind lets one more pass.
bool Engine::may_overtake(const Waiter& waiter, WaiterId index) noexcept {
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    if (waiter.request.subjects[place] == no_subject) continue;
    const Subject& subject = subjects_.current(waiter.request.subjects[place]);
    if (subject.first_waiter == link(index, place)) continue;
    if (!lets_pass(subject)) return false;
  }
  return true;
}

bool Engine::is_waiting(WaiterId waiter, api::Ticket ticket, api::CoreId origin) const noexcept {
  return waiter != api::no_waiter && waiters_.holds(waiter) && waiters_[waiter].ticket == ticket &&
         waiters_[waiter].origin == origin;
}

bool Engine::withdraw(WaiterId waiter, api::Ticket ticket, base::Now now,
                      api::CoreId origin) noexcept {
  if (!is_waiting(waiter, ticket, origin)) return false;
  clock_.begin(now);
  settle_waiter(waiter, Verdict::withdrawn, 0);
  serve_marked();
  return true;
}

bool Engine::abandon(WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::CoreId origin) noexcept {
  if (!is_waiting(waiter, ticket, origin)) return false;
  clock_.begin(now);
  leave(waiter);
  serve_marked();
  return true;
}

void Engine::drain(base::Now now) noexcept {
  clock_.begin(now);
  drain_at_ = 0;
  drain_some();
}

void Engine::drain_some() noexcept {
  if (drain_at_ == not_draining) return;
  for (; waiters_.used() > 0 && drain_at_ < waiters_.index_end(); ++drain_at_) {
    if (!budget_.may_go_on()) return;
    budget_.spend(0);
    if (waiters_.holds(drain_at_)) settle_waiter(drain_at_, Verdict::draining, 0);
  }
  drain_at_ = not_draining;
}

// Each part has its own share of work: however many lines are to be served, lifetimes and wait
// limits end.
void Engine::run_due(base::Now now) noexcept {
  clock_.begin(now);
  adoption_.go_on();
  budget_.refill();
  expire_bound();
  budget_.refill();
  fire_timers();
  budget_.refill();
  drain_some();
  refresh_waiters();
  serve_marked();
  budget_.refill();
  end_waits();
  budget_.refill();  // for the calls until the next time
}

// The rules have changed, or all was reset: lines are looked at, those of the first waiters first.
void Engine::refresh_waiters() noexcept {
  for (uint32_t count = 0; count < refreshed_max && refresh_waiters_at_ < waiters_.index_end();
       ++count, ++refresh_waiters_at_) {
    if (waiters_.holds(refresh_waiters_at_)) mark_lines(waiters_[refresh_waiters_at_]);
  }
  // Who comes later knows the rules.
  if (refresh_waiters_at_ >= waiters_.index_end()) refresh_waiters_at_ = none_to_refresh;
}

void Engine::fire_timers() noexcept {
  wheel_.advance(clock_.ms());
  for (int fired = 0; fired < timers_max && budget_.may_go_on(); ++fired) {
    const base::Timer* timer = wheel_.pop_due();
    if (timer == nullptr) return;
    budget_.spend(0);
    clock_.next_call();
    const TimerOwner owner = TimerOwner::of(*timer);
    switch (owner.kind) {
      case TimerOwner::lifetime:
        end_lifetime(reservations_[owner.index]);
        break;
      case TimerOwner::wait_limit:
        pass_limit(waiters_[owner.index]);
        break;
      case TimerOwner::wake:
        mark_lines(waiters_[owner.index]);  // once for all who are woken with it
        break;
    }
  }
}

void Engine::end_lifetime(Reservation& reservation) noexcept {
  if (reservation.state == api::ReservationState::open) {
    expire(reservation);
  } else {
    reservations_.forget(reservation);
  }
}

// What comes with its last moment comes in time: it has one more turn.
void Engine::pass_limit(Waiter& waiter) noexcept {
  waiter.limit_order = clock_.order();
  mark_lines(waiter);
  late_waiters_.push_back(waiter);
}

// Those who had their last turn are told. Who is gone makes room: who is behind has a turn first.
void Engine::end_waits() noexcept {
  if (drain_at_ != not_draining) return;  // they are told that
  for (int looked_at = 0; looked_at < late_waiters_max && !late_waiters_.empty(); ++looked_at) {
    if (!budget_.may_go_on()) return;
    budget_.spend(0);
    Waiter& waiter = late_waiters_.front();
    if (may_have_turn(waiter, waiter.limit_order)) {
      late_waiters_.splice(late_waiters_.end(), late_waiters_, late_waiters_.begin());
      continue;
    }
    settle_waiter(index_of(waiter), Verdict::wait_limit, 0);
    serve_marked();
  }
}

int64_t Engine::next_due_ns() const noexcept {
  if (adoption_.is_under_way()) return 0;
  if (refresh_waiters_at_ < waiters_.index_end() && waiters_.used() > 0) return 0;
  const bool serves = !subjects_.to_serve().empty() || drain_at_ != not_draining;
  if (serves || reservations_.bindings().has_any_to_expire() || !late_waiters_.empty()) return 0;
  const int64_t due_ms = wheel_.next_due_ms();
  return due_ms == INT64_MAX ? base::never_ns : due_ms * base::ns_per_ms;
}

}  // namespace sluice::quota
