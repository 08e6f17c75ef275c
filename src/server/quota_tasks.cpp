#include "server/quota_tasks.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "proto/reservation_id.hpp"
#include "quota/spread_round.hpp"
#include "server/shard_cursor.hpp"

namespace sluice::server {
namespace {

using api::Pass;
using api::QuotaCall;
using api::QuotaOp;

// Calls that a step decides once more: those of batches that await verdicts, and of later rounds.
constexpr uint32_t calls_retried_max = limits::quota_calls_max;

// Of a connection, among those of all shards of all nodes. Two that have the same number keep each
// other's order, and nothing worse.
uint64_t number_of(uint32_t node, api::ShardId shard, io::SocketId socket) noexcept {
  static_assert(limits::instances_max <= 1U << 10 && limits::shards_max <= 1U << 8);
  static_assert(io::generation_mask < 1U << 24);
  return uint64_t{node} << 54 ^ uint64_t { shard } << 46 ^ uint64_t { socket.generation } << 22 ^
         socket.index;
}

// Also a part whose home is another node: that does not know which shard has it. The parts of its
// waiters are at one worker, but what it sends may come to another one.
bool is_of_every_shard(const api::QuotaBatch& batch, QuotaOp op) noexcept {
  const bool concerns_parts = api::concerns_part(op) || op == QuotaOp::leave_node;
  return op == QuotaOp::reset_all || op == QuotaOp::end_binding ||
         (batch.stays_here && concerns_parts);
}

bool names_subjects(QuotaOp op) noexcept {
  switch (op) {
    case QuotaOp::reserve:
    case QuotaOp::check:
    case QuotaOp::record:
    case QuotaOp::consume:
    case QuotaOp::usage:
    case QuotaOp::position:
    case QuotaOp::put:
    case QuotaOp::remove:
    case QuotaOp::reset:
    case QuotaOp::holders:
      return true;
    default:
      return false;
  }
}

// Whether it is neither paged, nor administrative, nor of every shard, as most calls are.
bool is_common(QuotaOp op) noexcept {
  return api::concerns_limits(op) || api::names_reservation(op);
}

// Whether a call may be decided by several shards.
bool may_be_spread(const QuotaCall& call) noexcept {
  return api::concerns_limits(call.op) && call.subjects_count > 1 &&
         call.subjects_count <= limits::call_subjects_max;
}

// Whether other shards than its home have parts of its reservation, as its id says. Where a start
// with more shards has parted it, only the home knows: the batch goes on from there all the same,
// but what the connection sends behind it does not wait.
bool has_parts(const QuotaCall& call) noexcept {
  const bool concerns_parts =
      call.op == QuotaOp::settle || call.op == QuotaOp::cancel || call.op == QuotaOp::extend;
  return concerns_parts && proto::reservation_id::has_several_shards(call.reservation);
}

// Whether the shards are asked for a waiter of several shards.
bool is_try(const api::QuotaBatch& batch) noexcept {
  return !batch.spread.empty() && batch.spread.front().is_try;
}

// Whether another node waits until its call need not wait for a verdict here.
bool is_waiting_visit(const QuotaTask& task) noexcept {
  return task.batch.visit.is_set() && task.batch.pass == Pass::await;
}

// Whether the pages of this call lead through all shards: those about one subject are in one.
bool leads_through_shards(const QuotaCall& call) noexcept {
  return api::is_paged(call.op) && call.subjects_count == 0;
}

}  // namespace

QuotaTasks::QuotaTasks(io::Io& io, session::Context& context, SessionTable& sessions,
                       route::Mailboxes& mailboxes, WaiterDelivery& waiters,
                       quota::QuotaDecider& quotas, StateKeeper& keeper, NodeCalls& nodes,
                       const peer::FleetOptions& fleet, TaskSlots& slots,
                       ArrivalClock& arrival_clock, const OwnCallBounds& bounds)
    : io_(io),
      context_(context),
      sessions_(sessions),
      mailboxes_(mailboxes),
      waiters_(waiters),
      quotas_(quotas),
      keeper_(keeper),
      nodes_(nodes),
      visits_(mailboxes, nodes, fleet),
      visited_(node_tasks_, fleet.timeout_ms),
      visited_waiters_(quotas.outgoing_calls(), fleet.timeout_ms),
      stops_{.shards_count = mailboxes.shards_count(),
             .nodes_count = mailboxes.nodes().is_alone() ? 0 : mailboxes.nodes().nodes_count()},
      log_(mailboxes.shard()),
      pool_(slots, keeper.parked_tasks_max()),
      undurable_(keeper, sessions, pool_, slots.count()),
      arrival_clock_(arrival_clock),
      tries_max_(std::max(slots.count() / 2, 1U)) {
  // So that no node's calls are the first for as long as another one has been up.
  if (!mailboxes.nodes().is_alone()) {
    arrival_clock_.follow(io.now().wall_ns, io.now());
  }
  undelivered_.reserve(bounds.cancels_max);
  ended_bindings_.reserve(bounds.bindings_max);
}

// This shard decides, that is refuses, a call that belongs to no shard.
uint32_t QuotaTasks::owner_of(const api::QuotaBatch& batch, const QuotaCall& call) const noexcept {
  uint32_t shard = mailboxes_.shard();
  if (is_of_every_shard(batch, call.op)) {
    shard = 0;
  } else if (api::names_shard(call.op)) {
    shard = call.shard;
  } else if (api::names_reservation(call.op)) {
    shard = proto::reservation_shard(call.reservation, mailboxes_.shards_count());
  } else if (names_subjects(call.op) && call.subjects_count > 0) {
    shard = mailboxes_.shard_of(batch.subjects[call.first_subject + call.place]);
  } else if (leads_through_shards(call)) {
    shard = std::min(ShardCursor::of(call.cursor).shard, mailboxes_.shards_count() - 1);
  }
  return shard < mailboxes_.shards_count() ? shard : mailboxes_.shard();
}

bool QuotaTasks::spans_shards(const api::QuotaBatch& batch) const noexcept {
  if (batch.calls.empty() || stops_.end() == 1) return false;
  const bool leaves_node = std::any_of(batch.calls.begin(), batch.calls.end(),
                                       [&](auto& call) { return nodes_.leaves(batch, call); });
  if (leaves_node) return true;
  const uint32_t owner = owner_of(batch, batch.calls.front());
  return std::any_of(batch.calls.begin(), batch.calls.end(), [&](const QuotaCall& call) {
    return is_of_every_shard(batch, call.op) || owner_of(batch, call) != owner || has_parts(call) ||
           is_spread(batch, call);
  });
}

// Whether several shards, or nodes, have its subjects.
bool QuotaTasks::is_spread(const api::QuotaBatch& batch, const QuotaCall& call) const noexcept {
  if (!may_be_spread(call)) return false;
  const auto names = std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
  const bool stays = stays_on_node(names);
  const api::ShardId home = mailboxes_.shard_of(names.front());
  return std::any_of(names.begin() + 1, names.end(), [&](std::string_view name) {
    return (stays ? mailboxes_.shard_of(name) : stop_of(name)) != home;
  });
}

// A call whose first subject is another node's has come here by a list that differs from this one:
// all of it stays here. So does one with a name that is too long: its home refuses it, and a frame
// to another node might have no room for it.
bool QuotaTasks::stays_on_node(std::span<const std::string_view> names) const noexcept {
  const route::NodeMap& nodes = mailboxes_.nodes();
  if (nodes.is_alone() || nodes.node_of_subject(names.front()) != nodes.own_node()) return true;
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return name.size() > context_.options.key_bytes_max;
  });
}

api::ShardId QuotaTasks::stop_of(std::string_view name) const noexcept {
  const route::NodeMap& nodes = mailboxes_.nodes();
  const uint32_t node = nodes.node_of_subject(name);
  return node == nodes.own_node() ? mailboxes_.shard_of(name) : api::stop_of_node(node);
}

void QuotaTasks::spread(api::QuotaBatch& batch) noexcept {
  using Names = std::span<const std::string_view>;
  quota::spread(batch, [this](Names names, std::span<api::ShardId> stops) {
    const bool stays = stays_on_node(names);
    std::ranges::transform(names, stops.begin(), [&](std::string_view name) {
      return stays ? mailboxes_.shard_of(name) : stop_of(name);
    });
  });
}

api::QuotaBatch& QuotaTasks::take_node_batch() noexcept {
  if (filling_of_node_ == nullptr) filling_of_node_ = &node_tasks_.take();
  filling_of_node_->batch.clear();
  return filling_of_node_->batch;
}

api::QuotaBatch& QuotaTasks::take_batch() noexcept {
  if (filling_ == nullptr) filling_ = &pool_.take({});
  filling_->batch.clear();
  return filling_->batch;
}

void QuotaTasks::ask(const session::Session& session, uint64_t id,
                     api::QuotaBatch& batch) noexcept {
  const bool is_of_node = filling_of_node_ != nullptr && &filling_of_node_->batch == &batch;
  QuotaTask*& filling = is_of_node ? filling_of_node_ : filling_;
  ASSERT(filling != nullptr && &filling->batch == &batch);
  QuotaTask& task = *std::exchange(filling, nullptr);
  task.asker = Asker{session.connection().socket(), id};
  if (batch.visit.is_set()) return start_visit(task);
  batch.asker = number_of(mailboxes_.nodes().own_node(), mailboxes_.shard(), task.asker->socket);
  start(task);
}

// --- From shard to shard -------------------------------------------------------------------

void QuotaTasks::start(QuotaTask& task) noexcept {
  const bool has_left = nodes_.take_out(task);
  if (!has_left || !task.batch.calls.empty()) return start_here(task);
  task.origin = mailboxes_.shard();
  task.goes_on = task.may_change = false;
  task.batch.make_answers();
  finish(task);
}

void QuotaTasks::start_here(QuotaTask& task) noexcept {
  task.origin = mailboxes_.shard();
  api::QuotaBatch& batch = task.batch;
  note_arrival(batch);
  const bool alone = mailboxes_.is_only_shard();
  const bool has_one_stop = stops_.end() == 1;
  const bool refuses_changes =
      keeper_.is_on() && !(keeper_.may_promise(context_.now) && pool_.may_park());
  bool leaves = false;
  bool spreads = false;
  task.goes_on = false;
  task.may_change = false;
  task.epoch = 0;
  for (QuotaCall& call : batch.calls) {
    call.shard = static_cast<api::ShardId>(alone ? mailboxes_.shard() : owner_of(batch, call));
    if (has_one_stop && is_common(call.op)) {
      task.goes_on |= api::may_wait(call);
      continue;
    }
    if (api::is_paged(call.op)) call.cursor = ShardCursor::of(call.cursor).place;
    task.goes_on |=
        api::may_wait(call) || api::is_paged(call.op) || is_of_every_shard(batch, call.op);
    spreads = spreads || (!has_one_stop && is_spread(batch, call));
    if (api::is_administrative(call.op)) {
      task.may_change = keeper_.is_on();
      if (refuses_changes) call.flags |= api::quota_flag::not_durable;
    }
    leaves |= spreads || call.shard != mailboxes_.shard() || is_of_every_shard(batch, call.op) ||
              leads_through_shards(call);
  }
  if (leaves && !has_one_stop) batch.own_texts();
  batch.make_answers();
  if (spreads) spread(batch);
  task.shard = 0;
  go_on(task);
}

// One order of the calls of all nodes.
void QuotaTasks::note_arrival(api::QuotaBatch& batch) noexcept {
  const uint64_t shard = uint64_t{mailboxes_.shard()} << api::Arrival::shard_bit;
  const uint64_t node = uint64_t{mailboxes_.nodes().own_node()} << api::Arrival::node_bit;
  batch.arrival = {.ns = arrival_clock_.ns(context_.now), .number = node | shard | arrivals_};
  arrivals_ += batch.calls.size();
}

uint32_t QuotaTasks::next_stop(QuotaTask& task) const noexcept {
  if (!task.batch.visit.is_set()) return quota::next_stop(task.batch, task.shard, stops_);
  const uint32_t shards_count = mailboxes_.shards_count();
  const uint32_t stop = quota::next_stop_of_visit(task.batch, task.shard, shards_count);
  return stop < shards_count ? stop : stops_.end();
}

// Takes the task from shard to shard until another shard has it, this one keeps it, or it is
// finished.
void QuotaTasks::go_on(QuotaTask& task) noexcept {
  const uint32_t repeated_max = task.batch.calls_repeated + calls_retried_max;
  for (;;) {
    // A batch of the only shard of the only node has one stop.
    if (stops_.end() > 1) task.shard = next_stop(task);
    if (task.shard >= stops_.end()) return finish(task);
    if (api::is_node_stop(task.shard)) {
      if (visits_.visit(task, context_.now)) return;
      after_decide(task);
      continue;
    }
    if (task.shard != mailboxes_.shard()) {
      return mailboxes_.post(static_cast<api::ShardId>(task.shard), &task);
    }
    if (task.batch.calls_repeated > repeated_max) return go_on_later(task);
    if (!decide_or_keep(task)) return;
    after_decide(task);
  }
}

// As if it awaited a verdict, and there was one.
void QuotaTasks::go_on_later(QuotaTask& task) noexcept {
  keep(task);
  has_verdicts_ = true;
}

bool QuotaTasks::on_sent(QuotaTask& task) noexcept {
  if (task.origin != mailboxes_.shard()) return decide_or_keep(task);
  on_decided(task);
  return false;
}

// False: the task stays here until a verdict lets it go on. It holds nothing meanwhile: of a batch
// that does, the calls concerned are put off to the next round.
bool QuotaTasks::decide_or_keep(QuotaTask& task) noexcept {
  decide(task);
  if (task.batch.awaits_verdict) keep(task);
  return !task.batch.awaits_verdict;
}

void QuotaTasks::keep(QuotaTask& task) noexcept {
  task.batch.own_texts();
  kept_.push_back(&task);
  note_kept(task);
}

void QuotaTasks::note_kept(const QuotaTask& task) noexcept {
  if (is_waiting_visit(task)) visit_over_ns_ = std::min(visit_over_ns_, task.waits_until_ns);
}

// Each is tried once for all verdicts since then, first come, first tried: a step tries as many as
// its share of work allows, and later steps the others. Verdicts that are applied meanwhile are for
// the next time.
void QuotaTasks::retry_kept() noexcept {
  if (!may_retry()) return;
  if (!std::exchange(is_retrying_, true)) {
    has_verdicts_ = false;
    visit_over_ns_ = base::never_ns;
    retry_at_ = 0;
  }
  size_t at = retry_at_;
  for (size_t calls = 0; at < kept_.size() && calls < calls_retried_max; ++at) {
    QuotaTask* const task = kept_[at];
    calls += retry(*task);
    if (task->batch.awaits_verdict) {
      kept_[retry_at_++] = task;
      note_kept(*task);
    } else {
      retried_.push_back(task);
    }
  }
  is_retrying_ = at < kept_.size();
  kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(retry_at_),
              kept_.begin() + static_cast<ptrdiff_t>(at));
  for (QuotaTask* const task : retried_) {
    if (task->origin == mailboxes_.shard()) {
      on_decided(*task);
    } else {
      mailboxes_.post(task->origin, task);
    }
  }
  retried_.clear();
  deliver_grants();  // of this shard's parts, while the tasks visit others
}

// The number of calls that were tried. A task goes on, too, when its home does not wait any more.
size_t QuotaTasks::retry(QuotaTask& task) noexcept {
  const size_t count = task.batch.pass == Pass::await ? 1 : task.batch.undecided.size();
  context_.work.spend(count * session::work::quota_call);
  decide(task);
  if (is_waiting_visit(task) && task.waits_until_ns <= context_.now.monotonic_ns) {
    task.batch.awaits_verdict = false;
  }
  return count;
}

void QuotaTasks::decide(QuotaTask& task) noexcept {
  api::QuotaBatch& batch = task.batch;
  if (context_.draining) {
    for (QuotaCall& call : batch.calls) call.flags |= api::quota_flag::draining;
  }
  if (batch.stays_here) {
    refuse_held(batch);
    end_visited_waits(batch);
    forget_bindings(batch);
  }
  if (batch.visit.is_set() && batch.pass == Pass::apply) visited_.leave_out_cancelled(batch);
  batch.ended_claims = false;
  calls_count_ += batch.calls.size();
  quotas_.decide(batch, context_.now, task.origin);
  if (task.may_change) task.epoch = std::max(task.epoch, keeper_.epoch_of_changes());
  has_verdicts_ |= batch.ended_claims || batch.pass == Pass::apply || batch.pass == Pass::open;
  if (const std::string_view unknown = quotas_.unknown_subject(); !unknown.empty()) {
    log_.note_unknown(unknown, quotas_.statistics().unknown_subjects, context_.now);
  }
}

void QuotaTasks::on_decided(QuotaTask& task) noexcept {
  after_decide(task);
  go_on(task);
}

// The shard has had its share of the pass.
void QuotaTasks::after_decide(QuotaTask& task) noexcept {
  api::QuotaBatch& batch = task.batch;
  const bool looks = task.goes_on && batch.pass == Pass::decide;
  for (size_t index = 0; looks && index < batch.calls.size(); ++index) {
    QuotaCall& call = batch.calls[index];
    if (call.shard != task.shard) continue;
    if (api::is_paged(call.op)) continue_page(call, batch.answers[index]);
    if (is_of_every_shard(batch, call.op) && call.shard + 1U < mailboxes_.shards_count())
      ++call.shard;
    if (batch.answers[index].code == api::QuotaCode::queued) {
      waiters_.on_queued(call.ticket, batch.answers[index].waiter, call.shard);
    }
  }
  task.shard = quota::after_stop(batch, task.shard);
}

// A page leads through all shards: one that ends before it is full is continued in the next.
void QuotaTasks::continue_page(QuotaCall& call, api::QuotaAnswer& answer) const noexcept {
  if (answer.next_cursor != 0) {
    answer.next_cursor = ShardCursor{.shard = call.shard, .place = answer.next_cursor}.number();
    return;
  }
  if (!leads_through_shards(call) || call.shard + 1U == mailboxes_.shards_count()) return;
  const uint32_t rows_max = call.limit == 0 ? limits::subjects_page_max : call.limit;
  if (answer.rows_count < rows_max) {
    ++call.shard;
    call.cursor = 0;
  } else {
    answer.next_cursor = ShardCursor{.shard = call.shard + 1U}.number();
  }
}

void QuotaTasks::finish(QuotaTask& task) noexcept {
  if (task.batch.visit.is_set()) return finish_visit(task);
  if (!task.failed.empty()) end_failed(task);
  if (is_try(task.batch)) {
    --tries_;
    quotas_.end_try(task.batch, context_.now);
  }
  if (task.share.is_open() && !task.batch.spread.empty()) {
    note_queued(task.batch);
    task.batch.spread.clear();
  }
  if (nodes_.note_decided_here(task)) answer_or_keep(task);
}

// A part of them is not confirmed: the others are refunded, too.
void QuotaTasks::end_failed(QuotaTask& task) noexcept {
  for (const FailedCall& failed : task.failed) {
    api::QuotaAnswer& answer = task.batch.answers[failed.place];
    if (answer.reservation != 0) failed_.push_back(answer.reservation);
    answer = {.code = failed.code, .retry_after_ms = peer::FailurePolicy::retry_after_ms};
    task.batch.spread[failed.place].is_unconfirmed = true;
  }
  task.failed.clear();
}

void QuotaTasks::free(QuotaTask& task) noexcept {
  task.visited_round = 0;
  task.batch.free_page();
  if (task.is_of_node) {
    node_tasks_.free(task);
  } else {
    pool_.free(task);
  }
}

void QuotaTasks::on_parcel(peer::QuotaParcel& parcel) noexcept {
  if (parcel.of == peer::QuotaParcel::Of::visit) {
    arrival_clock_.follow(parcel.batch.visit.clock_ns, context_.now);
    return on_decided(visits_.on_returned(parcel, context_.now));
  }
  if (QuotaTask* const task = nodes_.on_parcel(parcel)) answer_or_keep(*task);
}

// All its calls are decided.
void QuotaTasks::answer_or_keep(QuotaTask& task) noexcept {
  if (task.may_change && undurable_.add(task, context_.now)) {
    context_.room_made |= task.is_parked;
    return;
  }
  answer(task);
  free(task);
  context_.room_made = true;
  deliver_grants();
}

void QuotaTasks::answer_durable() noexcept {
  if (!undurable_.has_any()) return;
  const size_t count = undurable_.answer_due(
      context_.now, [this](QuotaTask& task) { answer(task); },
      [this](QuotaTask& task) { free(task); });
  if (count == 0) return;
  context_.room_made = true;
  deliver_grants();
}

void QuotaTasks::deliver_grants() noexcept {
  waiters_.deliver_early_grants();
  waiters_.deliver_grants();
}

void QuotaTasks::answer(QuotaTask& task) noexcept {
  const bool may_be_queued = !task.batch.spread.empty() && !task.batch.visit.is_set();
  if (task.asker && may_be_queued) note_queued(task.batch);
  session::Session* const session = task.asker ? sessions_.find(task.asker->socket) : nullptr;
  const bool replies = session != nullptr && !session->ended();
  if (QuotaLog::is_logged(task.batch)) {
    QuotaLog::log_change(task.batch, replies ? io_.peer(session->connection().socket()) : "");
  }
  if (replies) {
    session->on_quota(task.asker->id, task.batch);
  } else if (task.asker) {
    drop_answers(task.batch);
  }
}

// Calls of several shards that wait: their homes have the waiters.
void QuotaTasks::note_queued(const api::QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    if (batch.answers[index].code != api::QuotaCode::queued) continue;
    waiters_.on_queued(batch.calls[index].ticket, batch.answers[index].waiter,
                       batch.spread[index].home());
  }
}

// The connection has ended meanwhile: no client waits, or knows what was reserved.
void QuotaTasks::drop_answers(const api::QuotaBatch& batch) noexcept {
  if (batch.visit.is_set()) return;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const QuotaCall& call = batch.calls[index];
    const api::QuotaAnswer& answer = batch.answers[index];
    if (api::asks_admission(call.op)) {
      waiters_.free_or_abandon(call.ticket, answer.code == api::QuotaCode::queued);
    }
  }
  session::cancel_undelivered(context_.backend, batch);
  // A shard may have ended the binding before it made these reservations.
  // Those of another node's clients may still be there.
  if (batch.stays_here) return;
  if (!batch.calls.empty() && batch.calls[0].binding != 0) end_binding(batch.calls[0].binding);
}

// There are never more of them than connections and tasks: a session that uses a new binding needs
// a task, and no task is free before the ends of other bindings are sent.
void QuotaTasks::end_binding(uint64_t binding) noexcept {
  ended_bindings_.push_back(binding);
  nodes_.end_binding(binding);
}

// There is room for all reservations that can be open. There can be more only if answers name the
// same reservation again and again, under an id: then the last ones end with their lifetimes.
void QuotaTasks::cancel_undelivered(uint64_t reservation) noexcept {
  if (nodes_.cancel_undelivered(reservation)) return;
  if (undelivered_.size() < undelivered_.capacity()) undelivered_.push_back(reservation);
}

// Called before sessions ask: otherwise they could take every task that becomes free.
void QuotaTasks::make_own_calls() noexcept {
  retry_kept();
  end_overdue();
  if (nodes_.has_own_calls()) nodes_.send_own_calls();
  while (has_own_calls() && pool_.has_room()) {
    QuotaTask& task = pool_.take({});
    // Calls first: others may be served once a waiter's parts have left their queues.
    if (has_calls()) {
      task.batch.clear();
      fill_own_calls(task.batch);
      start(task);
    } else {
      start_try(task);
    }
    waiters_.deliver_grants();  // of this shard's part, while the task visits the other shards
  }
}

void QuotaTasks::start_try(QuotaTask& task) noexcept {
  ++tries_;
  quotas_.next_try(task.batch);
  task.batch.own_texts();
  task.may_change = false;
  task.origin = mailboxes_.shard();
  task.shard = 0;
  go_on(task);
}

void QuotaTasks::fill_own_calls(api::QuotaBatch& batch) noexcept {
  const auto has_room = [&] { return batch.calls.size() < limits::quota_calls_max; };
  for (; !undelivered_.empty() && has_room(); undelivered_.pop_back()) {
    batch.calls.push_back({.op = QuotaOp::cancel,
                           .flags = api::quota_flag::undelivered,
                           .reservation = undelivered_.back()});
  }
  for (; !failed_.empty() && has_room(); failed_.pop_back()) {
    batch.calls.push_back({.op = QuotaOp::cancel, .reservation = failed_.back()});
  }
  for (; !ended_bindings_.empty() && has_room(); ended_bindings_.pop_back()) {
    batch.calls.push_back({.op = QuotaOp::end_binding, .binding = ended_bindings_.back()});
  }
  std::deque<QuotaCall>& outgoing = quotas_.outgoing_calls();
  for (; !outgoing.empty() && has_room(); outgoing.pop_front()) {
    const QuotaCall& call = outgoing.front();
    if (api::is_node_stop(call.shard) && !api::concerns_part(call.op)) {
      nodes_.bring(call);
    } else if (api::is_node_stop(call.shard)) {
      nodes_.repeat(call, api::node_of_stop(call.shard), call.lifetime_ms);
    } else {
      batch.calls.push_back(call);
    }
  }
}

}  // namespace sluice::server
