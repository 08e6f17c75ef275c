#include "quota/wait_queues.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"

namespace sluice::quota {

using api::WaiterId;

namespace {

// A waiter may fit earlier than was foreseen (a wall clock that jumps): it is woken after so long
// in any case.
constexpr int64_t wake_ns_max = 60 * base::ns_per_s;

// Whether the waiter is the first in the queue of the subject at this place of its request.
bool heads(const Subject& subject, const Waiter& waiter, uint8_t place) noexcept {
  return &*subject.queue.begin() == &waiter.places[place];
}

// Whether a waiter has arrived before.
bool has_earlier(const Subject& subject, const api::Arrival& arrival) noexcept {
  return subject.has_waiters() && subject.queue.begin()->waiter->arrival < arrival;
}

}  // namespace

WaitQueues::WaitQueues(const Options& options, const CallClock& clock, SubjectTable& subjects,
                       base::TimerWheel& wheel, OwnerNames& owners, ClientIds& client_ids)
    : clock_(clock),
      subjects_(subjects),
      wheel_(wheel),
      owners_(owners),
      client_ids_(client_ids),
      pool_(options.waiters_max, "quota waiters (--max-waiters)") {}

WaiterId WaitQueues::join(const Request& request, const Newcomer& newcomer) noexcept {
  const WaiterId index = take(request, newcomer);
  enter(index, newcomer.call.wait_ms_max);
  return index;
}

WaiterId WaitQueues::take(const Request& request, const Newcomer& newcomer) noexcept {
  const WaiterId index = pool_.take(request);
  Waiter& waiter = pool_[index];
  waiter.limit.owner = TimerTag{TimerTag::wait_limit, index}.bits();
  waiter.wake.owner = TimerTag{TimerTag::wake, index}.bits();
  waiter.arrival = newcomer.arrival;
  waiter.ticket = newcomer.call.ticket;
  waiter.origin = newcomer.origin;
  waiter.owner = owners_.keep(newcomer.call.owner);
  waiter.subjects_here = request.subjects_count;
  if (request.id.is_set()) client_ids_.add(request.id, {.index = index, .is_waiter = true});
  return index;
}

void WaitQueues::enter(WaiterId index, uint32_t wait_ms_max) noexcept {
  Waiter& waiter = pool_[index];
  waiter.stage = Waiter::Stage::waiting;
  if (!waiter.is_part) ++waiting_count_;
  for (uint8_t place = 0; place < waiter.request.subjects_count; ++place) {
    if (is_here(waiter.request.subjects[place])) enter(waiter, place);
  }
  const int64_t wait_ns = int64_t{wait_ms_max} * base::ns_per_ms;
  if (wait_ns != 0) wheel_.schedule(waiter.limit, base::ceil_ms(clock_.ns() + wait_ns));
}

bool WaitQueues::have_one_of(const api::Arrival& arrival, const Request& request) const noexcept {
  const auto has_one = [&](SubjectIndex subject) {
    if (!is_here(subject)) return false;
    const Queue& queue = subjects_[subject].queue;
    const auto behind = queue.upper_bound(arrival, ByArrival{});
    return behind != queue.begin() && std::prev(behind)->waiter->arrival == arrival;
  };
  return std::any_of(request.named().begin(), request.named().end(), has_one);
}

// Most arrive last.
void WaitQueues::enter(Waiter& waiter, uint8_t place) noexcept {
  Subject& subject = subjects_[waiter.request.subjects[place]];
  waiter.places[place].waiter = &waiter;
  const auto at = subject.queue.insert(subject.queue.cend(), waiter.places[place]);
  ASSERT(&*at == &waiter.places[place]);  // no other has the same arrival
  ++subject.waiting;
  if (heads(subject, waiter, place)) subject.overtaken = 0;
}

void WaitQueues::leave(WaiterId index) noexcept {
  Waiter& waiter = pool_[index];
  const Request& request = waiter.request;
  if (waiter.stage != Waiter::Stage::joining) {
    if (!waiter.is_part) --waiting_count_;
    for (uint8_t place = 0; place < request.subjects_count; ++place) {
      if (is_here(request.subjects[place])) take_out(waiter, place);
    }
  }
  if (request.id.is_set()) client_ids_.remove(request.id, {.index = index, .is_waiter = true});
  base::TimerWheel::cancel(waiter.limit);
  base::TimerWheel::cancel(waiter.wake);
  owners_.drop(waiter.owner);
  pool_.free(index);
}

void WaitQueues::take_out(Waiter& waiter, uint8_t place) noexcept {
  const SubjectIndex index = waiter.request.subjects[place];
  Subject& subject = subjects_[index];
  const bool was_head = heads(subject, waiter, place);
  subject.queue.erase(Queue::s_iterator_to(waiter.places[place]));
  --subject.waiting;
  if (was_head) subject.overtaken = 0;
  const bool may_help = was_head || allows_overtaking(subject);
  if (subject.has_waiters() && may_help) subjects_.to_serve().add(index);
}

uint32_t WaitQueues::position(WaiterId index, SubjectIndex subject) const noexcept {
  const Waiter& waiter = pool_[index];
  const std::span<const SubjectIndex> named = waiter.request.named();
  const auto found = std::find(named.begin(), named.end(), subject);
  if (waiter.stage == Waiter::Stage::joining || found == named.end()) return 0;
  auto at = Queue::s_iterator_to(waiter.places[static_cast<size_t>(found - named.begin())]);
  uint32_t position = 1;
  for (const auto head = subjects_[subject].queue.cbegin();
       at != head && position < limits::position_max; --at) {
    ++position;
  }
  return position;
}

Request WaitQueues::take_request(WaiterId index) noexcept {
  Waiter& waiter = pool_[index];
  const Request request = waiter.request;
  if (request.id.is_set()) client_ids_.remove(request.id, {.index = index, .is_waiter = true});
  waiter.request.id = {};
  return request;
}

void WaitQueues::give_id(WaiterId index, const NameHash& id, uint64_t request_hash) noexcept {
  if (!id.is_set()) return;
  Request& request = pool_[index].request;
  request.id = id;
  request.request_hash = request_hash;
  client_ids_.add(id, {.index = index, .is_waiter = true});
}

void WaitQueues::wake_at(WaiterId index, int64_t fits_at_ns) noexcept {
  const int64_t wake_ns = std::min(fits_at_ns, clock_.ns() + wake_ns_max);
  wheel_.schedule(pool_[index].wake, base::ceil_ms(wake_ns));
}

// Whether a queue of the limited subjects has a waiter that must not be overtaken. Where that is
// only so because its head is still to be tried, marks the queue to have it tried.
bool WaitQueues::must_queue_behind(const LimitedSubjects& limited,
                                   const api::Arrival& arrival) noexcept {
  bool must = false;
  for (const LimitedSubject& each : limited) {
    if (each.index == no_subject) continue;
    const Subject& subject = subjects_[each.index];
    if (!has_earlier(subject, arrival) || may_be_overtaken(subject)) continue;
    if (allows_overtaking(subject)) subjects_.to_serve().add(each.index);
    must = true;
  }
  return must;
}

// The queue allows overtaking, and its head is not still to be tried: no queue of the head is
// marked, and no timer is due that might mark one.
bool WaitQueues::may_be_overtaken(const Subject& subject) const noexcept {
  return allows_overtaking(subject) && !is_to_be_tried(*subject.queue.begin()->waiter) &&
         wheel_.next_due_ms() > clock_.ms();
}

bool WaitQueues::have_waiters_beside_holds(const LimitedSubjects& limited) const noexcept {
  return std::any_of(limited.begin(), limited.end(), [this](const LimitedSubject& each) {
    return each.held != nullptr && subjects_[each.index].has_waiters();
  });
}

bool WaitQueues::allow_overtaking(const LimitedSubjects& limited) const noexcept {
  return std::all_of(limited.begin(), limited.end(), [this](const LimitedSubject& each) {
    if (each.index == no_subject) return true;
    const Subject& subject = subjects_[each.index];
    return !subject.has_waiters() || allows_overtaking(subject);
  });
}

bool WaitQueues::allows_overtaking(const Subject& subject) const noexcept {
  return subject.quota != nullptr && subject.overtaken < subject.quota->quota.overtakers_max;
}

void WaitQueues::count_overtaking(const LimitedSubjects& limited,
                                  const api::Arrival& arrival) noexcept {
  for (const LimitedSubject& each : limited) {
    Subject& subject = subjects_[each.index];
    if (has_earlier(subject, arrival)) ++subject.overtaken;
  }
}

bool WaitQueues::heads_all(WaiterId index) const noexcept {
  return queues_not_headed(index).empty();
}

WaitQueues::SubjectList WaitQueues::queues_not_headed(WaiterId index) const noexcept {
  SubjectList queues;
  const Request& request = pool_[index].request;
  for (uint8_t place = 0; place < request.subjects_count; ++place) {
    const SubjectIndex subject = request.subjects[place];
    if (!is_here(subject)) continue;
    if (!heads(subjects_[subject], pool_[index], place)) queues.push_back(subject);
  }
  return queues;
}

bool WaitQueues::may_overtake(WaiterId index) noexcept {
  const Request& request = pool_[index].request;
  for (uint8_t place = 0; place < request.subjects_count; ++place) {
    if (!is_here(request.subjects[place])) continue;
    const Subject& subject = subjects_.current(request.subjects[place]);
    if (heads(subject, pool_[index], place)) continue;
    if (!allows_overtaking(subject)) return false;
  }
  return true;
}

bool WaitQueues::is_to_be_tried(const Waiter& waiter, uint64_t since_order) const noexcept {
  const std::span<const SubjectIndex> named = waiter.request.named();
  return std::any_of(named.begin(), named.end(), [&](SubjectIndex index) {
    if (!is_here(index)) return false;
    const Subject& subject = subjects_[index];
    return subject.to_serve && subject.served_order < since_order;
  });
}

void WaitQueues::mark_waited_for(std::span<const SubjectIndex> subjects) noexcept {
  for (const SubjectIndex subject : subjects) {
    if (!is_here(subject) || !subjects_[subject].has_waiters()) continue;
    subjects_.to_serve().add(subject);
  }
}

bool WaitQueues::is_waiting(WaiterId index, api::Ticket ticket,
                            api::ShardId origin) const noexcept {
  return index != api::no_waiter && pool_.holds(index) && pool_[index].ticket == ticket &&
         pool_[index].origin == origin && pool_[index].stage != Waiter::Stage::joining;
}

void WaitQueues::check_invariants() const noexcept {
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    const Subject& subject = subjects_[index];
    uint32_t waiting = 0;
    const Waiter* before = nullptr;
    for (const QueuePlace& at : subject.queue) {
      const auto place = static_cast<size_t>(&at - at.waiter->places.data());
      ASSERT(at.waiter->request.subjects[place] == index);
      ASSERT(before == nullptr || before->arrival < at.waiter->arrival);
      before = at.waiter;
      ++waiting;
    }
    ASSERT(waiting == subject.waiting);
  }
}

}  // namespace sluice::quota
