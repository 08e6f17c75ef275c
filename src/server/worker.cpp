#include "server/worker.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "server/metrics.hpp"

namespace sluice::server {
namespace {

// Keys are swept in slices also while nothing else happens.
constexpr int64_t idle_wait_ns = 250 * base::ns_per_ms;
constexpr int64_t late_sweep_wait_ns = base::ns_per_ms;

// A client can make its session ready again and again in one turn; the rest waits for the next.
constexpr int ready_passes_max = 64;

// Timers handled in one turn; the rest is due at once in the next.
constexpr int timers_max = 1'024;

}  // namespace

Worker::Worker(io::Io& io, const WorkerOptions& options, RequestIds& ids)
    : io_(io),
      ids_(ids),
      connections_max_(options.connections_max),
      drain_ms_(options.drain_ms),
      shard_(options.shard),
      context_(*this, options.sessions),
      sessions_(options.connections_max + refused_sockets_max, options.sessions.key_bytes_max),
      events_(limits::turn_events) {
  metrics_text_.reserve(metrics_bytes_max);
}

Worker::~Worker() {
  // Sessions go first: they take their waiters off the book and the shard.
  for (uint32_t index = 0; index < sessions_.index_end(); ++index) {
    if (session::Session* session = sessions_.at(index)) session->close();
  }
}

void Worker::start() noexcept {
  listeners_open_ = 2;
  io_.accept_start(http_listener);
  io_.accept_start(native_listener);
}

void Worker::turn(int64_t wait_ns_max) noexcept {
  ++statistics_.turns;
  const bool idle = context_.ready.empty() && context_.dirty.empty();
  const int64_t wait = idle ? std::min(wait_ns(), wait_ns_max) : 0;
  const size_t count = io_.poll(events_, wait);
  context_.now = io_.now();
  for (const io::Event& event : std::span(events_).first(count)) on_event(event);
  execute();
  resume_ready();
  shard_.run_due(context_.now);
  deliver_grants();
  run_timers();
  execute();
  deliver_grants();
  end_turn();
  check_drain();
  ASSERT(context_.turn.empty());
}

// Until the next deadline of the shard or of a connection.
int64_t Worker::wait_ns() const noexcept {
  int64_t wait = shard_.sweep_late() ? late_sweep_wait_ns : idle_wait_ns;
  const int64_t now_ns = context_.now.monotonic_ns;
  const int64_t shard_due_ns = shard_.next_due_ns();
  if (shard_due_ns != base::never_ns) wait = std::min(wait, shard_due_ns - now_ns);
  const int64_t timer_due_ms = context_.timers.next_due_ms();
  if (timer_due_ms != INT64_MAX) {
    wait = std::min(wait, timer_due_ms * base::ns_per_ms - now_ns);
  }
  return std::max<int64_t>(wait, 0);
}

void Worker::on_event(const io::Event& event) noexcept {
  switch (event.kind) {
    case io::EventKind::accepted:
      on_accepted(event);
      return;
    case io::EventKind::accept_failed:
      ++statistics_.accept_failures;
      return;
    case io::EventKind::listener_closed:
      --listeners_open_;
      return;
    case io::EventKind::woken:
      return;
    case io::EventKind::closed:
      sessions_.end(event.socket);
      return;
    case io::EventKind::released:
      ASSERT(!"a socket that nobody releases");
      return;
    case io::EventKind::received:
    case io::EventKind::end_of_stream:
    case io::EventKind::hung_up:
    case io::EventKind::failed:
    case io::EventKind::sent:
      break;
  }
  session::Session* session = sessions_.find(event.socket);
  if (session == nullptr) return;
  if (event.kind == io::EventKind::received) session->on_received(event.bytes);
  if (event.kind == io::EventKind::end_of_stream) session->on_end_of_stream();
  if (event.kind == io::EventKind::hung_up) session->on_hung_up();
  if (event.kind == io::EventKind::failed) session->on_failed();
  if (event.kind == io::EventKind::sent) session->on_sent(event.result);
}

void Worker::on_accepted(const io::Event& event) noexcept {
  const bool too_many = sessions_.open_count() >= connections_max_;
  session::Session& session = event.listener == http_listener
                                  ? sessions_.open_http(context_, io_, event.socket)
                                  : sessions_.open_native(context_, io_, event.socket);
  ++statistics_.accepted;
  session.begin();
  if (too_many) {
    ++statistics_.refused;
    session.refuse();
  }
}

void Worker::execute() noexcept {
  if (context_.turn.empty()) return;
  ASSERT(!executing_);
  executing_ = true;
  route::Turn& turn = context_.turn;
  shard_.decide(turn.entries(),
                {.verdicts = turn.verdicts(), .details = turn.details(), .waiters = turn.waiters()},
                context_.now);
  const uint64_t ids = count_ids();
  assign_ids(ids > 0 ? ids_.take(ids) : 0);
  deliver_verdicts();
  context_.turn.clear();
  context_.text.clear();
  executing_ = false;
  deliver_grants();
}

// Entries of one request either all show their id or none.
static bool shows_id(const route::Request& request, std::span<const api::Entry> entries) noexcept {
  return request.entries_count > 0 &&
         (entries[request.first_entry].flags & api::flag::shows_id) != 0;
}

// A request that was refused for what it asked takes no id, as in gocc.
static bool takes_id(api::Verdict verdict) noexcept {
  return verdict != api::Verdict::never_fits && verdict != api::Verdict::not_allowed &&
         verdict != api::Verdict::invalid_key;
}

uint64_t Worker::count_ids() noexcept {
  uint64_t count = 0;
  const auto verdicts = context_.turn.verdicts();
  for (const route::Request& request : context_.turn.requests()) {
    if (!shows_id(request, context_.turn.entries())) continue;
    for (const api::Verdict verdict :
         verdicts.subspan(request.first_entry, request.entries_count)) {
      count += takes_id(verdict) ? 1 : 0;
    }
  }
  return count;
}

void Worker::assign_ids(uint64_t next_id) noexcept {
  const auto details = context_.turn.details();
  const auto verdicts = context_.turn.verdicts();
  for (const route::Request& request : context_.turn.requests()) {
    if (!shows_id(request, context_.turn.entries())) continue;
    const uint32_t end = request.first_entry + request.entries_count;
    for (uint32_t index = request.first_entry; index < end; ++index) {
      details[index].request_id = takes_id(verdicts[index]) ? next_id++ : 0;
    }
  }
}

void Worker::deliver_verdicts() noexcept {
  route::Turn& turn = context_.turn;
  for (const route::Request& request : turn.requests()) {
    // A session ends with `closed`, in a later turn: whoever asked in this one is still there.
    session::Session* session = sessions_.find({request.session, request.generation});
    ASSERT(session != nullptr);
    const uint32_t first = request.first_entry;
    const uint32_t count = request.entries_count;
    session->on_verdicts(request, {.entries = turn.entries().subspan(first, count),
                                   .verdicts = turn.verdicts().subspan(first, count),
                                   .details = turn.details().subspan(first, count),
                                   .waiters = turn.waiters().subspan(first, count)});
  }
}

void Worker::deliver_grants() noexcept {
  // A session that ends on its way may free more: by index, for the list grows.
  for (size_t index = 0; index < shard_.grants().size(); ++index) {
    const api::Grant grant = shard_.grants()[index];
    session::WaitingEntry& entry = context_.waits[grant.ticket];
    if (entry.session == session::WaitingEntry::no_session) {
      context_.waits.give_back(grant.ticket);
      continue;
    }
    session::Session* session = sessions_.at(entry.session);
    ASSERT(session != nullptr);
    session->on_granted(entry, grant);
  }
  shard_.clear_grants();
}

void Worker::resume_ready() noexcept {
  for (int pass = 0; pass < ready_passes_max && !context_.ready.empty(); ++pass) {
    session::Context::ReadyList ready;
    ready.swap(context_.ready);
    while (!ready.empty()) ready.front().resume();
    execute();
  }
}

void Worker::run_timers() noexcept {
  context_.timers.advance(context_.now_ms());
  for (int fired = 0; fired < timers_max; ++fired) {
    const base::Timer* timer = context_.timers.pop_due();
    if (timer == nullptr) return;
    sessions_.at(static_cast<uint32_t>(timer->owner))->on_timer();
  }
}

void Worker::end_turn() noexcept {
  // Only what is dirty now: a session may mark itself again for the next turn.
  session::Context::DirtyList dirty;
  dirty.swap(context_.dirty);
  while (!dirty.empty()) dirty.front().end_turn();
  deliver_grants();  // who ended may have made room for others, who are dirty now
}

void Worker::withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept {
  if (shard_.withdraw(waiter, ticket, context_.now)) deliver_grants();
}

void Worker::abandon(api::WaiterId waiter, api::Ticket ticket) noexcept {
  if (shard_.abandon(waiter, ticket, context_.now)) {
    context_.waits.give_back(ticket);
  } else {
    context_.waits[ticket].session = session::WaitingEntry::no_session;
  }
}

void Worker::inspect(session::Session& session, uint64_t id, std::string_view key) noexcept {
  const auto state = shard_.inspect(key, context_.now);
  session.on_inspected(id, state ? &*state : nullptr);
}

void Worker::page(session::Session& session, uint64_t id, uint64_t cursor,
                  uint32_t keys_max) noexcept {
  const shard::Page page = shard_.page(cursor, keys_max, context_.now);
  session.on_page(id, page.keys, page.next_cursor);
}

std::string_view Worker::metrics() noexcept {
  write_metrics({.shard_id = context_.options.shard,
                 .shard = shard_,
                 .worker = statistics_,
                 .io = io_,
                 .connections = sessions_.open_count(),
                 .drained_entries = context_.drained_entries},
                metrics_text_);
  return metrics_text_;
}

void Worker::begin_drain() noexcept {
  if (context_.draining) return;
  context_.draining = true;
  drain_deadline_ms_ = context_.now_ms() + drain_ms_;
  io_.accept_finish(http_listener);
  io_.accept_finish(native_listener);
  shard_.drain(context_.now);
  deliver_grants();
  for (uint32_t index = 0; index < sessions_.index_end(); ++index) {
    if (session::Session* session = sessions_.at(index)) session->begin_drain();
  }
  end_turn();
}

bool Worker::drained() const noexcept {
  return context_.draining && listeners_open_ == 0 && sessions_.open_count() == 0;
}

void Worker::check_drain() noexcept {
  if (!context_.draining || context_.now_ms() < drain_deadline_ms_) return;
  for (uint32_t index = 0; index < sessions_.index_end(); ++index) {
    session::Session* session = sessions_.at(index);
    if (session == nullptr || session->ended()) continue;
    session->close();
    ++statistics_.cut_off;
  }
}

uint64_t Worker::reserved_bytes() const noexcept {
  return shard_.reserved_bytes() + context_.waits.reserved_bytes() + sessions_.reserved_bytes();
}

}  // namespace sluice::server
