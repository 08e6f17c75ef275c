// Batches of quota calls: to the cores that decide them, and back.
// Shape:  a batch travels as a look does. One with calls of several cores goes from core to core,
//         in their order; so does a call that is every core's. Calls of the worker's own wait until
//         a look is free.
#include <algorithm>

#include "base/assert.hpp"
#include "quota/quota_store.hpp"
#include "server/look.hpp"
#include "server/worker.hpp"

namespace sluice::server {
namespace {

using api::QuotaCall;
using api::QuotaOp;
using route::Look;

// A cursor over the pages of all shards: the shard stands above the place in its own.
constexpr uint32_t shard_shift = 40;

bool is_of_every_core(QuotaOp op) noexcept {
  return op == QuotaOp::reset_all || op == QuotaOp::end_tie;
}

bool names_subjects(QuotaOp op) noexcept {
  switch (op) {
    case QuotaOp::reserve:
    case QuotaOp::check:
    case QuotaOp::record:
    case QuotaOp::usage:
    case QuotaOp::put:
    case QuotaOp::remove:
    case QuotaOp::reset:
    case QuotaOp::holders:
      return true;
    default:
      return false;
  }
}

// Whether its pages lead through all shards: those of one subject are all in one.
bool leads_through_shards(const QuotaCall& call) noexcept {
  return api::is_paged(call.op) && call.subjects_count == 0;
}

}  // namespace

// What no core has is decided, which is to say refused, here.
uint32_t Worker::core_of(const api::QuotaBatch& batch, const QuotaCall& call) const noexcept {
  uint32_t core = core_;
  if (api::names_reservation(call.op)) {
    core = quota::shard_of(call.reservation);
  } else if (names_subjects(call.op) && call.subjects_count > 0) {
    core = exchange_.owner_of(batch.subjects[call.first_subject]);
  } else if (leads_through_shards(call)) {
    core = static_cast<uint32_t>(
        std::min<uint64_t>(call.cursor >> shard_shift, exchange_.cores() - 1));
  } else if (is_of_every_core(call.op)) {
    core = 0;
  }
  return core < exchange_.cores() ? core : core_;
}

bool Worker::spans_cores(const api::QuotaBatch& batch) const noexcept {
  if (exchange_.alone() || batch.calls.empty()) return false;
  const uint32_t core = core_of(batch, batch.calls.front());
  return std::any_of(batch.calls.begin(), batch.calls.end(), [&](const QuotaCall& call) {
    return is_of_every_core(call.op) || core_of(batch, call) != core;
  });
}

api::QuotaBatch& Worker::take_batch() noexcept {
  if (filling_ == nullptr) filling_ = &take_look();
  filling_->kind = Look::Kind::quota;
  filling_->batch.clear();
  return filling_->batch;
}

void Worker::ask(session::Session& session, uint64_t id, api::QuotaBatch& batch) noexcept {
  ASSERT(filling_ != nullptr && &filling_->batch == &batch);
  Look& look = *std::exchange(filling_, nullptr);
  const io::SocketId socket = session.connection().socket();
  look.session = socket.index;
  look.generation = socket.generation;
  look.id = id;
  ask(look);
}

void Worker::ask(Look& look) noexcept {
  api::QuotaBatch& batch = look.batch;
  const bool alone = exchange_.alone();
  bool leaves = false;
  for (QuotaCall& call : batch.calls) {
    call.core = static_cast<api::CoreId>(alone ? core_ : core_of(batch, call));
    if (api::is_paged(call.op)) call.cursor &= (uint64_t{1} << shard_shift) - 1;
    leaves |= call.core != core_ || is_of_every_core(call.op) || leads_through_shards(call);
  }
  if (leaves && !alone) batch.own_texts();
  batch.make_answers();
  look.shard = 0;
  if (!go_on(look)) return on_decided(look);
}

// To the next core, from look.shard on, that a call of the batch belongs to. False: there is none.
bool Worker::go_on(Look& look) noexcept {
  look.shard = exchange_.alone() ? look.shard : next_core(look);
  if (look.shard >= exchange_.cores()) return false;
  send(look);
  return true;
}

uint32_t Worker::next_core(const Look& look) const noexcept {
  uint32_t next = exchange_.cores();
  for (const QuotaCall& call : look.batch.calls) {
    if (call.core >= look.shard) next = std::min<uint32_t>(next, call.core);
  }
  return next;
}

// At the core whose turn it is.
void Worker::decide_quota(Look& look) noexcept {
  if (context_.draining) {
    for (QuotaCall& call : look.batch.calls) call.flags |= api::quota_flag::draining;
  }
  quotas_->decide(look.batch, context_.now, look.origin);
  if (const std::string_view unknown = quotas_->unknown_subject(); !unknown.empty()) {
    quota_log_.note_unknown(unknown, quotas_->statistics().unknown_subjects, context_.now);
  }
}

// Back at the core that asked: its calls of core look.shard are decided.
void Worker::on_quota_decided(Look& look) noexcept {
  for (size_t index = 0; index < look.batch.calls.size(); ++index) {
    QuotaCall& call = look.batch.calls[index];
    if (call.core != look.shard) continue;
    if (api::is_paged(call.op)) lead_on(call, look.batch.answers[index]);
    if (is_of_every_core(call.op) && call.core + 1U < exchange_.cores()) ++call.core;
    if (look.batch.answers[index].code == api::QuotaCode::queued) {
      waiters_.on_queued(call.ticket, look.batch.answers[index].waiter, call.core, true);
    }
  }
  ++look.shard;
  if (!go_on(look)) on_decided(look);
}

// A page leads through all shards: one that ends before it is full goes on in the next.
void Worker::lead_on(QuotaCall& call, api::QuotaAnswer& answer) const noexcept {
  if (answer.next_cursor != 0) {
    answer.next_cursor |= uint64_t{call.core} << shard_shift;
    return;
  }
  if (!leads_through_shards(call) || call.core + 1U == exchange_.cores()) return;
  const uint32_t rows_max = call.limit == 0 ? limits::subjects_page_max : call.limit;
  if (answer.rows_count < rows_max) {
    ++call.core;
    call.cursor = 0;
  } else {
    answer.next_cursor = uint64_t{call.core + 1U} << shard_shift;
  }
}

void Worker::on_decided(Look& look) noexcept {
  session::Session* const session = sessions_.find({look.session, look.generation});
  const bool goes_on = session != nullptr && !session->ended();
  if (QuotaLog::tells(look.batch)) {
    QuotaLog::tell_change(look.batch, goes_on ? io_.peer(session->connection().socket()) : "");
  }
  if (goes_on) {
    session->on_quota(look.id, look.batch);
  } else if (!look.is_own) {
    take_back(look.batch);
  }
  look.is_own = false;
  give_back(look);
  waiters_.deliver_early_grants();
  waiters_.deliver_grants();
}

// The connection has ended meanwhile: nobody waits, and nobody knows what was reserved.
void Worker::take_back(const api::QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const QuotaCall& call = batch.calls[index];
    const api::QuotaAnswer& answer = batch.answers[index];
    if (call.op == QuotaOp::reserve) {
      waiters_.drop(call.ticket, answer.code == api::QuotaCode::queued);
    }
  }
  session::give_back_untold(*this, batch);
  // Some core may have heard of the tie's end before it made these.
  if (!batch.calls.empty() && batch.calls[0].tie != 0) end_tie(batch.calls[0].tie);
}

// There are never more of them than connections and looks: whoever begins a tie needs a look, and
// none is free before those that ended are told.
void Worker::end_tie(uint64_t tie) noexcept {
  ended_ties_.push_back(tie);
}

// All that can be open has room. Only answers that name the same again and again, under an id, can
// be more: then what comes last ends with its lifetime.
void Worker::give_back(uint64_t reservation) noexcept {
  if (untold_.size() < untold_.capacity()) untold_.push_back(reservation);
}

// Before sessions ask for themselves: else they could take every look that comes free.
void Worker::make_own_calls() noexcept {
  while (has_own_calls() && may_look()) {
    Look& look = take_look();
    look.kind = Look::Kind::quota;
    look.is_own = true;
    look.session = Look::no_session;
    look.batch.clear();
    fill_own_calls(look.batch);
    ask(look);
    waiters_.deliver_grants();  // of this core's part, while other cores have theirs to do
  }
}

void Worker::fill_own_calls(api::QuotaBatch& batch) noexcept {
  const auto has_room = [&] { return batch.calls.size() < limits::quota_calls_max; };
  for (; !untold_.empty() && has_room(); untold_.pop_back()) {
    batch.calls.push_back(
        {.op = QuotaOp::cancel, .flags = api::quota_flag::untold, .reservation = untold_.back()});
  }
  for (; !ended_ties_.empty() && has_room(); ended_ties_.pop_back()) {
    batch.calls.push_back({.op = QuotaOp::end_tie, .tie = ended_ties_.back()});
  }
}

}  // namespace sluice::server
