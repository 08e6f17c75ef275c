// Has quota calls decided by other nodes: those of a session's batch, and calls of the worker's own
// about reservations that other nodes have.
// Flow:   QuotaTasks: take_out(), before this node decides the rest -> parcels -> peer::Peers ->
//         on_parcel() -> gather(): the answers are in the batch, in the order of its calls.
// Shape:  a call belongs to the node of its first subject, or of its reservation (NodeVisits brings
//         it to other subjects' nodes). A batch's calls for one target leave in one parcel, or in
//         several if they are many. Calls of the worker's own are repeated until they are answered,
//         for they may be: cancels of undelivered reservations, ends of bindings, and what concerns
//         parts on other nodes. A report of a part that waits is sent once: its home asks again.
// Errors: a call whose node does not answer is answered by the failure policy.
// Bounds: own calls are repeated for own_calls_kept_ms, and at most own_calls_max wait; besides,
//         waiter_calls_max about waiters, which leave other nodes for as long as those keep them.
//         A call that finds no room is dropped and counted: what it should have ended on the other
//         node ends there with its lifetime.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "peer/failure_policy.hpp"
#include "peer/fleet_options.hpp"
#include "peer/quota_parcel.hpp"
#include "route/mailboxes.hpp"
#include "server/node_share.hpp"
#include "server/quota_task.hpp"
#include "server/waiter_delivery.hpp"
#include "session/context.hpp"

namespace sluice::server {

class NodeCalls {
 public:
  static constexpr int64_t own_calls_kept_ms = limits::repeats_ms_min;
  static constexpr int64_t own_calls_pause_ms = 200;
  static constexpr size_t own_calls_max = 65'536;
  static constexpr size_t waiter_calls_max = 32'768;

  NodeCalls(session::Context& context, const route::Mailboxes& mailboxes, WaiterDelivery& waiters,
            const peer::FleetOptions& fleet);

  // There are other nodes.
  void attach(peer::ParcelSender& sender) noexcept { sender_ = &sender; }

  // Whether another node decides this call of the batch, or none does.
  bool leaves(const api::QuotaBatch& batch, const api::QuotaCall& call) const noexcept;
  // Sends the calls of other nodes away: those of this node are left in the batch. False: all are.
  bool take_out(QuotaTask& task);
  // This node has decided its calls. False: others are still to be awaited.
  bool note_decided_here(QuotaTask& task);
  // The calls of a parcel are answered, or will not be. Returns the task that has all answers now.
  QuotaTask* on_parcel(peer::QuotaParcel& parcel);

  // False: it is this node's.
  bool cancel_undelivered(uint64_t reservation);
  void end_binding(uint64_t binding);
  // A call about another node's part of a reservation: until it is answered, or the time is over.
  void repeat(const api::QuotaCall& call, uint32_t node, int64_t kept_ms);
  // Likewise about waiters whose parts several nodes have.
  void bring(const api::QuotaCall& call);
  bool has_own_calls() const noexcept {
    return !own_calls_.empty() && own_calls_.front().due_ms <= context_.now_ms();
  }
  void send_own_calls();
  // Calls of the worker's own that found no room.
  uint64_t dropped_count() const noexcept { return dropped_count_; }

  // No parcel is under way, and no call of the worker's own waits that was not sent once.
  bool is_idle() const noexcept {
    return free_.size() == parcels_.size() && (own_calls_.empty() || own_calls_.front().is_repeat);
  }

 private:
  uint32_t node_of(const api::QuotaBatch& batch, const api::QuotaCall& call) const noexcept;
  route::TargetId target_of(uint32_t node, const api::QuotaBatch& batch,
                            const api::QuotaCall& call) const noexcept;
  uint64_t binding_for_nodes(uint64_t binding) const noexcept;
  NodeParcel& take_parcel(route::TargetId target);
  NodeParcel* parcel_for(std::vector<NodeParcel*>& open, route::TargetId target,
                         const api::QuotaBatch& batch, size_t index);
  void add(NodeParcel& parcel, const QuotaTask& task, uint32_t place);
  void post(NodeParcel& parcel);
  int64_t timeout_ms(const api::QuotaBatch& batch) const noexcept;
  void gather(QuotaTask& task);
  void gather(QuotaTask& task, NodeParcel& parcel);
  api::QuotaAnswer failure_of(const NodeParcel& parcel, const QuotaTask& task,
                              uint32_t place) const noexcept;
  void keep_for_later(NodeParcel& parcel);
  void free(NodeParcel& parcel);
  void add_own_call(const OwnNodeCall& call, int64_t kept_ms = own_calls_kept_ms);
  bool take_room(api::QuotaOp op) noexcept;

  session::Context& context_;
  const route::Mailboxes& mailboxes_;
  WaiterDelivery& waiters_;
  const peer::FailurePolicy policy_;
  const int64_t timeout_ms_;
  peer::ParcelSender* sender_ = nullptr;  // null: this node is alone
  std::vector<std::unique_ptr<NodeParcel>> parcels_;
  std::vector<NodeParcel*> free_;
  std::deque<OwnNodeCall> own_calls_;  // those that were not sent first
  size_t waiter_calls_ = 0;            // of them: about waiters
  uint64_t dropped_count_ = 0;
  std::map<uint64_t, std::set<route::TargetId>> bindings_;  // where each has been used
};

}  // namespace sluice::server
