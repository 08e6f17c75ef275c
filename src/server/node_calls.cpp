#include "server/node_calls.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/splitmix.hpp"
#include "base/time.hpp"
#include "proto/reservation_id.hpp"
#include "server/visited_waiters.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {

using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using peer::QuotaParcel;

namespace {

bool is_answered_by_rows(QuotaOp op) noexcept {
  return op == QuotaOp::usage || op == QuotaOp::show || op == QuotaOp::holders;
}

// Appends the second list to the first one, and returns the place of its first item there.
template <typename T>
uint32_t append(std::vector<T>& to, std::vector<T>& from) {
  const auto first = static_cast<uint32_t>(to.size());
  to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
  from.clear();
  return first;
}

void shift(api::TextSpan& span, uint32_t by) noexcept {
  span.begin += by;
}

// Reports of more limits than one answer may have are left out.
void leave_out_limits(QuotaBatch& batch) noexcept {
  batch.limits.clear();
  for (QuotaAnswer& answer : batch.answers) {
    answer.limits_left_out |= answer.limits_count > 0;
    answer.limits_count = answer.first_limit = 0;
  }
  for (api::SubjectRow& row : batch.rows) row.limits_count = row.first_limit = 0;
}

}  // namespace

NodeCalls::NodeCalls(session::Context& context, const route::Mailboxes& mailboxes,
                     WaiterDelivery& waiters, const peer::FleetOptions& fleet)
    : context_(context),
      mailboxes_(mailboxes),
      waiters_(waiters),
      policy_(fleet.on_failure),
      timeout_ms_(fleet.timeout_ms) {}

// --- Which node ----------------------------------------------------------------------------

uint32_t NodeCalls::node_of(const QuotaBatch& batch, const QuotaCall& call) const noexcept {
  const route::NodeMap& nodes = mailboxes_.nodes();
  if (api::names_reservation(call.op)) return nodes.node_of_reservation(call.reservation);
  const bool is_forwarded = wire::may_forward(call.op) && call.op != QuotaOp::end_binding;
  if (!is_forwarded || call.subjects_count == 0) return nodes.own_node();
  return nodes.node_of_subject(batch.subjects[call.first_subject + call.place]);
}

route::TargetId NodeCalls::target_of(uint32_t node, const QuotaBatch& batch,
                                     const QuotaCall& call) const noexcept {
  const route::NodeMap& nodes = mailboxes_.nodes();
  if (api::names_reservation(call.op)) {
    return nodes.target_of_reservation(node, call.reservation);
  }
  return nodes.target_of_subject(node, batch.subjects[call.first_subject + call.place]);
}

bool NodeCalls::leaves(const QuotaBatch& batch, const QuotaCall& call) const noexcept {
  if (sender_ == nullptr || batch.stays_here) return false;
  return node_of(batch, call) != mailboxes_.nodes().own_node();
}

// Different for all nodes, and for all starts of one.
uint64_t NodeCalls::binding_for_nodes(uint64_t binding) const noexcept {
  if (binding == 0) return 0;
  return base::splitmix64(context_.options.instance_id + base::splitmix64(binding)) |
         wire::binding_of_node;
}

// --- There ---------------------------------------------------------------------------------

bool NodeCalls::take_out(QuotaTask& task) {
  if (sender_ == nullptr) return false;
  QuotaBatch& batch = task.batch;
  const auto leaves_node = [&](const QuotaCall& call) { return leaves(batch, call); };
  if (std::ranges::none_of(batch.calls, leaves_node)) return false;
  batch.own_texts();
  NodeShare& share = task.share;
  share.calls = batch.calls;
  share.answers.assign(batch.calls.size(), {});
  share.own.clear();
  share.is_decided_here = false;
  std::vector<NodeParcel*> open;
  for (uint32_t place = 0; place < share.calls.size(); ++place) {
    const QuotaCall& call = share.calls[place];
    const uint32_t node = node_of(batch, call);
    if (node == mailboxes_.nodes().own_node()) {
      share.own.push_back(place);
      continue;
    }
    NodeParcel* const parcel = parcel_for(open, target_of(node, batch, call), batch, place);
    if (parcel != nullptr) {
      add(*parcel, task, place);
    } else {
      share.answers[place] = policy_.answer(call.op);
    }
  }
  batch.calls.clear();
  for (const uint32_t place : share.own) batch.calls.push_back(share.calls[place]);
  ASSERT(batch.calls.empty() || (batch.new_quotas.empty() && batch.wait_answers.empty()));
  share.under_way = static_cast<uint32_t>(open.size());
  for (NodeParcel* const parcel : open) {
    parcel->task = &task;
    post(*parcel);
  }
  return true;
}

NodeParcel& NodeCalls::take_parcel(route::TargetId target) {
  if (free_.empty()) {
    parcels_.push_back(std::make_unique<NodeParcel>());
    free_.push_back(parcels_.back().get());
  }
  NodeParcel& parcel = *free_.back();
  free_.pop_back();
  parcel.batch.clear();
  parcel.target = target;
  parcel.task = nullptr;
  parcel.places.clear();
  parcel.own_calls.clear();
  parcel.bytes = wire::forward_quota_head_bytes;
  return parcel;
}

// The last parcel for the target, if it has room for the call, or a new one. Null: the call is too
// long for any.
NodeParcel* NodeCalls::parcel_for(std::vector<NodeParcel*>& open, route::TargetId target,
                                  const QuotaBatch& batch, size_t index) {
  const QuotaCall& call = batch.calls[index];
  const size_t bytes = wire::forwarded_call_bytes(batch, index);
  if (wire::forward_quota_head_bytes + bytes > limits::frame_bytes_max) return nullptr;
  const size_t calls_max =
      is_answered_by_rows(call.op) ? wire::forwarded_rows_calls_max : wire::forwarded_calls_max;
  const auto last = std::find_if(open.rbegin(), open.rend(), [&](const NodeParcel* parcel) {
    return parcel->target == target;
  });
  const bool has_room = last != open.rend() && (*last)->batch.calls.size() < calls_max &&
                        (*last)->bytes + bytes <= limits::frame_bytes_max;
  if (!has_room) open.push_back(&take_parcel(target));
  NodeParcel* const parcel = has_room ? *last : open.back();
  parcel->bytes += bytes;
  return parcel;
}

void NodeCalls::add(NodeParcel& parcel, const QuotaTask& task, uint32_t place) {
  const QuotaBatch& batch = task.batch;
  const QuotaCall& call = task.share.calls[place];
  QuotaBatch& to = parcel.batch;
  QuotaCall& added = to.calls.emplace_back(call);
  added.first_subject = static_cast<uint32_t>(to.subjects.size());
  added.binding = binding_for_nodes(call.binding);
  const auto names = std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
  to.subjects.insert(to.subjects.end(), names.begin(), names.end());
  if (!batch.new_quotas.empty()) {
    to.new_quotas.resize(to.calls.size());
    to.new_quotas.back() = batch.new_quotas[place];
  }
  if (!batch.wait_answers.empty()) {
    to.wait_answers.resize(to.calls.size());
    to.wait_answers.back() = batch.wait_answers[place];
  }
  parcel.places.push_back(place);
}

void NodeCalls::post(NodeParcel& parcel) {
  parcel.timeout_ms = timeout_ms(parcel.batch);
  parcel.has_caller = parcel.task != nullptr;
  sender_->post(parcel);
  if (parcel.task == nullptr) return;
  for (const uint32_t place : parcel.places) {
    const uint64_t binding = parcel.task->share.calls[place].binding;
    if (binding != 0) bindings_[binding].insert(parcel.target);
  }
}

// A change of a quota may wait for the other node's disk.
int64_t NodeCalls::timeout_ms(const QuotaBatch& batch) const noexcept {
  const bool waits_for_disk = std::ranges::any_of(
      batch.calls, [](const QuotaCall& call) { return api::is_administrative(call.op); });
  return timeout_ms_ + (waits_for_disk ? limits::durable_wait_ms_max : 0);
}

// --- Back ----------------------------------------------------------------------------------

bool NodeCalls::note_decided_here(QuotaTask& task) {
  NodeShare& share = task.share;
  if (!share.is_open()) return true;
  share.is_decided_here = true;
  if (share.under_way > 0) return false;
  gather(task);
  return true;
}

QuotaTask* NodeCalls::on_parcel(QuotaParcel& returned) {
  auto& parcel = static_cast<NodeParcel&>(returned);
  if (parcel.task == nullptr) {
    if (!parcel.is_answered) keep_for_later(parcel);
    free(parcel);
    return nullptr;
  }
  QuotaTask& task = *parcel.task;
  task.share.parcels.push_back(&parcel);
  --task.share.under_way;
  if (task.share.under_way > 0 || !task.share.is_decided_here) return nullptr;
  gather(task);
  return &task;
}

// All answers, in the order of the calls.
void NodeCalls::gather(QuotaTask& task) {
  NodeShare& share = task.share;
  QuotaBatch& batch = task.batch;
  for (size_t own = 0; own < share.own.size(); ++own) {
    share.answers[share.own[own]] = batch.answers[own];
  }
  for (NodeParcel* const parcel : share.parcels) {
    gather(task, *parcel);
    free(*parcel);
  }
  batch.calls = std::move(share.calls);
  batch.answers = std::move(share.answers);
  share.calls.clear();
  share.answers.clear();
  share.parcels.clear();
}

void NodeCalls::gather(QuotaTask& task, NodeParcel& parcel) {
  QuotaBatch& from = parcel.batch;
  QuotaBatch& to = task.batch;
  std::vector<QuotaAnswer>& answers = task.share.answers;
  if (!parcel.is_answered) {
    for (const uint32_t place : parcel.places) answers[place] = failure_of(parcel, task, place);
    return;
  }
  if (to.limits.size() + from.limits.size() > limits::quota_reports_max) leave_out_limits(from);
  const auto text = static_cast<uint32_t>(to.answer_text.size());
  to.answer_text += from.answer_text;
  const uint32_t first_limit = append(to.limits, from.limits);
  const uint32_t first_quota = append(to.quotas, from.quotas);
  for (api::SubjectRow& row : from.rows) {
    row.name_begin += text;
    row.quota += first_quota;
    row.first_limit += first_limit;
  }
  for (api::HolderRow& holder : from.holders) {
    shift(holder.owner, text);
    for (api::TextSpan& name : holder.subjects) shift(name, text);
  }
  const uint32_t first_row = append(to.rows, from.rows);
  const uint32_t first_holder = append(to.holders, from.holders);
  for (size_t index = 0; index < parcel.places.size(); ++index) {
    QuotaAnswer& answer = answers[parcel.places[index]];
    answer = from.answers[index];
    answer.first_limit += first_limit;
    answer.first_row += first_row;
    answer.first_holder += first_holder;
    if (answer.code != QuotaCode::queued) continue;
    waiters_.on_queued(from.calls[index].ticket, answer.waiter, parcel.target);
  }
}

QuotaAnswer NodeCalls::failure_of(const NodeParcel& parcel, const QuotaTask& task,
                                  uint32_t place) const noexcept {
  const QuotaCall& call = task.share.calls[place];
  QuotaAnswer answer = policy_.answer(call.op);
  answer.failed_node_plus_one = static_cast<uint16_t>(node_of(task.batch, call) + 1);
  answer.node_failure = parcel.failure;
  return answer;
}

void NodeCalls::free(NodeParcel& parcel) {
  free_.push_back(&parcel);
}

// --- Calls of the worker's own -------------------------------------------------------------

bool NodeCalls::cancel_undelivered(uint64_t reservation) {
  if (sender_ == nullptr) return false;
  const route::NodeMap& nodes = mailboxes_.nodes();
  const uint32_t node = nodes.node_of_reservation(reservation);
  if (node == nodes.own_node()) return false;
  add_own_call({.call = {.op = QuotaOp::cancel,
                         .flags = api::quota_flag::undelivered,
                         .reservation = reservation},
                .target = nodes.target_of_reservation(node, reservation)});
  return true;
}

void NodeCalls::end_binding(uint64_t binding) {
  const auto used = bindings_.find(binding);
  if (used == bindings_.end()) return;
  for (const route::TargetId target : used->second) {
    add_own_call({.call = {.op = QuotaOp::end_binding, .binding = binding_for_nodes(binding)},
                  .target = target});
  }
  bindings_.erase(used);
}

// For one more call; false: it is dropped. Calls about waiters have room of their own, so that they
// do not displace refunds.
bool NodeCalls::take_room(QuotaOp op) noexcept {
  const bool concerns_waiter = api::concerns_waiter(op);
  const bool has_room = concerns_waiter ? waiter_calls_ < waiter_calls_max
                                        : own_calls_.size() - waiter_calls_ < own_calls_max;
  if (!has_room) ++dropped_count_;
  if (has_room && concerns_waiter) ++waiter_calls_;
  return has_room;
}

// Those that are sent the first time come first.
void NodeCalls::add_own_call(const OwnNodeCall& call, int64_t kept_ms) {
  if (!take_room(call.call.op)) return;
  own_calls_.push_front(call);
  own_calls_.front().ends_ms = context_.now_ms() + kept_ms;
}

void NodeCalls::repeat(const QuotaCall& call, uint32_t node, int64_t kept_ms) {
  add_own_call(
      {.call = call, .target = mailboxes_.nodes().target_of_reservation(node, call.reservation)},
      std::max(kept_ms, own_calls_kept_ms));
}

// A part's report goes to the shard that has the waiter, and its leave to the worker that had the
// parts of its batch. What the leave does not reach in time has left there by itself.
void NodeCalls::bring(const QuotaCall& call) {
  const route::NodeMap& nodes = mailboxes_.nodes();
  const uint32_t node = api::node_of_stop(call.shard);
  if (!nodes.has_other(node)) return;
  const bool leaves = call.op == QuotaOp::leave_node;
  const uint64_t number = leaves ? call.cursor - call.waiter : uint64_t{call.home_shard};
  add_own_call({.call = call, .target = nodes.target_of_number(node, number)},
               leaves ? waiter_kept_timeouts * timeout_ms_ : 0);
}

void NodeCalls::send_own_calls() {
  const int64_t now_ms = context_.now_ms();
  std::vector<NodeParcel*> open;
  QuotaBatch one;
  for (; !own_calls_.empty() && own_calls_.front().due_ms <= now_ms; own_calls_.pop_front()) {
    const OwnNodeCall& own = own_calls_.front();
    one.calls.assign(1, own.call);
    NodeParcel* const parcel = parcel_for(open, own.target, one, 0);
    parcel->batch.calls.push_back(own.call);
    parcel->own_calls.push_back(own);
    if (api::concerns_waiter(own.call.op)) --waiter_calls_;
  }
  for (NodeParcel* const parcel : open) post(*parcel);
}

void NodeCalls::keep_for_later(NodeParcel& parcel) {
  const int64_t now_ms = context_.now_ms();
  for (OwnNodeCall& own : parcel.own_calls) {
    if (own.ends_ms <= now_ms || !take_room(own.call.op)) continue;
    own.due_ms = now_ms + own_calls_pause_ms;
    own.is_repeat = true;
    own_calls_.push_back(own);
  }
}

}  // namespace sluice::server
