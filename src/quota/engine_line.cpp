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

// Timers, and subjects of waiters with old rules, that one run_due() takes.
constexpr int timers_max = 1'024;
constexpr uint32_t refreshed_max = 64;

}  // namespace

// Somebody stands in a line of the party who must not be passed.
bool Engine::must_wait(const Party& party) noexcept {
  return std::any_of(party.begin(), party.end(), [this](const Member& member) {
    if (member.index == no_subject) return false;
    const Subject& subject = subjects_[member.index];
    return subject.has_line() && subject.overtaken >= member.quota->quota.overtakers_max;
  });
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
  if (wait_ns != 0 && against.earliest_ns > now_.ns + wait_ns) {
    return QuotaCode::deadline_unmeetable;
  }
  const WaiterId index = waiters_.take(uint64_t{0}, uint64_t{0});
  if (index == waiters_.none) return QuotaCode::waiters_full;
  Waiter& waiter = waiters_[index];
  waiter.limit.owner = timer_owner(limit_timer, index);
  waiter.wake.owner = timer_owner(wake_timer, index);
  waiter.request = request;
  waiter.ticket = call.ticket;
  waiter.origin = origin;
  waiter.owner = keep_text(call.owner);
  if (waiter.owner != BlockArena::none) {
    waiter.owner_bytes = static_cast<uint8_t>(call.owner.size());
  }
  if (request.id.is_set()) id_index_.insert(request.id.low, index | waiter_bit);
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
  if (wait_ns != 0) wheel_.schedule(waiter.limit, base::ceil_ms(now_.ns + wait_ns));
  answer.waiter = index;
  // Whoever heads all its lines has to be looked at when it may fit.
  if (heads_all(waiter, index)) wake_at(waiter, against.fits_at_ns);
  return QuotaCode::queued;
}

void Engine::wake_at(Waiter& waiter, int64_t fits_at_ns) noexcept {
  wheel_.schedule(waiter.wake, base::ceil_ms(std::min(fits_at_ns, now_.ns + look_again_ns)));
}

bool Engine::heads_all(const Waiter& waiter, WaiterId index) noexcept {
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    const SubjectIndex subject = waiter.request.subjects[place];
    if (subject != no_subject && subjects_[subject].first_waiter != link(index, place))
      return false;
  }
  return true;
}

// Takes the waiter out of all its lines, and marks those that have another head now.
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
      mark(subject_index);
    } else {
      waiters_[waiter_of(before)].behind[place_of(before)] = behind;
    }
    if (behind == no_link) {
      subject.last_waiter = before;
    } else {
      waiters_[waiter_of(behind)].before[place_of(behind)] = before;
    }
    --subject.waiting;
  }
  if (waiter.request.id.is_set()) id_index_.erase(waiter.request.id.low, index | waiter_bit);
  base::TimerWheel::cancel(waiter.limit);
  base::TimerWheel::cancel(waiter.wake);
  extra_memory_.give_back(waiter.owner, waiter.owner_bytes);
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

void Engine::mark(SubjectIndex index) noexcept {
  if (std::exchange(subjects_[index].to_serve, true)) return;
  to_serve_.push_back(index);
}

void Engine::serve(SubjectIndex index) noexcept {
  mark(index);
  serve_marked();
}

// Serving one line may make others move: until none does. Each step takes a waiter out, or ends a
// line's turn.
void Engine::serve_marked() noexcept {
  while (!to_serve_.empty()) {
    const SubjectIndex index = to_serve_.back();
    to_serve_.pop_back();
    subjects_[index].to_serve = false;
    serve_line(index);
  }
}

void Engine::serve_line(SubjectIndex index) noexcept {
  while (subjects_[index].has_line()) {
    const WaiterId head = waiter_of(subjects_[index].first_waiter);
    if (!heads_all(waiters_[head], head)) break;  // served when its other lines have moved
    if (!try_head(head)) break;
  }
  if (subjects_[index].has_line()) let_overtake(index);
}

// True: it was served, or can never be, and has left.
bool Engine::try_head(WaiterId index) noexcept {
  Waiter& waiter = waiters_[index];
  const Party party = party_of(waiter.request);
  const bool denied = party.size() < waiter.request.subjects_count &&
                      book_->rules().unknown == policy::UnknownSubjects::deny;
  if (!denied && fits(party, waiter.request.amounts)) return serve_waiter(index, party);
  const Obstacle against = obstacle(party, waiter.request.amounts);
  if (denied || against.fits_at_ns == base::never_ns) {
    settle_waiter(index, Verdict::never_fits, 0);
    return true;
  }
  wake_at(waiter, against.fits_at_ns);
  return false;
}

// False: no place for another reservation; it goes on waiting.
bool Engine::serve_waiter(WaiterId index, const Party& party) noexcept {
  const Waiter& waiter = waiters_[index];
  next_call();
  if (waiter.request.id.is_set()) {
    // The id goes over to the reservation.
    id_index_.erase(waiter.request.id.low, index | waiter_bit);
  }
  const std::string_view owner =
      waiter.owner == BlockArena::none
          ? std::string_view{}
          : std::string_view{reinterpret_cast<const char*>(extra_memory_.at(waiter.owner)),
                             waiter.owner_bytes};
  const Index made = admit(waiter.request, party, owner);
  if (made == reservations_.none) {
    if (waiter.request.id.is_set()) id_index_.insert(waiter.request.id.low, index | waiter_bit);
    wake_at(waiters_[index], now_.ns + base::ns_per_s);
    return false;
  }
  waiters_[index].request.id = {};
  ++statistics_.waited;
  settle_waiter(index, Verdict::approved, reservations_[made].id);
  return true;
}

// The head does not fit: some behind it may pass, as many as the quota allows.
void Engine::let_overtake(SubjectIndex index) noexcept {
  Link at = subjects_[index].first_waiter;
  at = waiters_[waiter_of(at)].behind[place_of(at)];
  for (int looked_at = 0; looked_at < overtakers_looked_at && at != no_link; ++looked_at) {
    const WaiterId candidate = waiter_of(at);
    at = waiters_[candidate].behind[place_of(at)];
    if (!may_overtake(waiters_[candidate], candidate)) continue;
    const Party party = party_of(waiters_[candidate].request);
    if (!fits(party, waiters_[candidate].request.amounts)) continue;
    // The lines whose heads it passes; what it heads itself has another head then.
    std::array<SubjectIndex, limits::call_subjects_max> passed;
    const uint32_t passed_count = lines_passed_by(candidate, passed);
    if (!serve_waiter(candidate, party)) return;
    for (uint32_t line = 0; line < passed_count; ++line) ++subjects_[passed[line]].overtaken;
    if (!subjects_[index].has_line()) return;
  }
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

bool Engine::may_overtake(const Waiter& waiter, WaiterId index) noexcept {
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    if (waiter.request.subjects[place] == no_subject) continue;
    const Subject& subject = current(waiter.request.subjects[place]);
    if (subject.quota == nullptr) return false;
    if (subject.first_waiter == link(index, place)) continue;
    if (subject.overtaken >= subject.quota->quota.overtakers_max) return false;
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
  begin(now);
  settle_waiter(waiter, Verdict::withdrawn, 0);
  serve_marked();
  return true;
}

bool Engine::abandon(WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::CoreId origin) noexcept {
  if (!is_waiting(waiter, ticket, origin)) return false;
  begin(now);
  leave(waiter);
  serve_marked();
  return true;
}

void Engine::drain(base::Now now) noexcept {
  begin(now);
  for (WaiterId index = 0; index < waiters_.index_end(); ++index) {
    if (waiters_.holds(index)) settle_waiter(index, Verdict::draining, 0);
  }
  serve_marked();
}

void Engine::run_due(base::Now now) noexcept {
  begin(now);
  go_on_adopting();
  for (uint32_t count = 0; count < refreshed_max && refresh_waiters_at_ < waiters_.index_end();
       ++count, ++refresh_waiters_at_) {
    if (!waiters_.holds(refresh_waiters_at_)) continue;
    for (const SubjectIndex subject : waiters_[refresh_waiters_at_].request.subjects) {
      if (subject != no_subject && subjects_[subject].has_line()) mark(subject);
    }
    serve_marked();
  }
  wheel_.advance(now_ms());
  for (int fired = 0; fired < timers_max; ++fired) {
    const base::Timer* timer = wheel_.pop_due();
    if (timer == nullptr) return;
    next_call();
    const auto index = static_cast<uint32_t>(timer->owner);
    switch (static_cast<TimerKind>(timer->owner >> timer_kind_shift)) {
      case lifetime_timer:
        if (reservations_[index].state == api::ReservationState::open) {
          expire(reservations_[index]);
        } else {
          forget(reservations_[index], {});
        }
        break;
      case limit_timer:
        serve_heads(index);  // what comes with its last moment comes in time
        if (!waiters_.holds(index)) break;
        settle_waiter(index, Verdict::wait_limit, 0);
        serve_marked();
        break;
      case wake_timer:
        serve_heads(index);
        break;
    }
  }
}

// The waiter heads its lines, or did: they are looked at.
void Engine::serve_heads(WaiterId index) noexcept {
  for (uint8_t place = 0; place < waiters_[index].request.subjects_count; ++place) {
    const SubjectIndex subject = waiters_[index].request.subjects[place];
    if (subject != no_subject) mark(subject);
  }
  serve_marked();
}

int64_t Engine::next_due_ns() const noexcept {
  if (adoption_.under_way) return 0;
  if (refresh_waiters_at_ < waiters_.index_end() && waiters_.used() > 0) return 0;
  const int64_t due_ms = wheel_.next_due_ms();
  return due_ms == INT64_MAX ? base::never_ns : due_ms * base::ns_per_ms;
}

}  // namespace sluice::quota
