// Has other nodes take part in deciding a batch whose home is this node.
// Flow:   QuotaTasks: the task's next stop is another node -> visit() -> a parcel ->
//         on_returned(): the batch has what that node says, and goes on.
// Shape:  a visit is one node's share in one pass of the batch (api::Pass); that node brings it to
//         its own shards (VisitedParts). The ends of parts, and extensions, are plain calls.
// Errors: a node that does not answer is in the way of the calls that need it. What it may have
//         held or charged for them is refunded by calls that are repeated (NodeCalls). A call that
//         is longer than a frame may be is not sent, as if no node that it needs answered.
// Lives:  one per worker, one thread only.
// Source: docs/adr/0034-quota-calls-over-several-nodes.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "peer/failure_policy.hpp"
#include "peer/fleet_options.hpp"
#include "peer/quota_parcel.hpp"
#include "route/mailboxes.hpp"
#include "server/node_calls.hpp"
#include "server/quota_task.hpp"
#include "session/context.hpp"

namespace sluice::server {

class NodeVisits {
 public:
  NodeVisits(const route::Mailboxes& mailboxes, NodeCalls& calls, const peer::FleetOptions& fleet);

  // There are other nodes.
  void attach(peer::ParcelSender& sender) noexcept { sender_ = &sender; }

  // The task's next stop is a node: it has its share in the batch's pass. False: it cannot be asked
  // for that, and the batch goes on without it.
  bool visit(QuotaTask& task, base::Now now);
  // The task that goes on.
  QuotaTask& on_returned(peer::QuotaParcel& parcel, base::Now now);

  bool is_idle() const noexcept { return free_.size() == parcels_.size(); }

 private:
  struct Visit : peer::QuotaParcel {
    QuotaTask* task = nullptr;
    std::vector<uint32_t> ends;  // of a batch's part_ends
    bool is_sent = false;
  };

  Visit& take(QuotaTask& task);
  static uint64_t number_of_batch(const QuotaTask& task) noexcept;
  void note_lost_waiter(api::QuotaOp op, const api::SpreadCall& asked,
                        api::SpreadCall& part) noexcept;
  void note_round(QuotaTask& task, base::Now now) noexcept;
  int64_t timeout_ms(const QuotaTask& task, base::Now now) const noexcept;
  void fill(Visit& visit, base::Now now);
  void add(Visit& visit, uint32_t place, base::Now now);
  void fill_ends(Visit& visit);
  void on_answered(Visit& visit, base::Now now);
  void on_unanswered(Visit& visit);
  void on_unanswered_ask(QuotaTask& task, uint32_t place);
  void on_unanswered_verdict(QuotaTask& task, uint32_t place);
  void on_ends_returned(Visit& visit);
  void refund(const QuotaTask& task, uint32_t place);

  const route::Mailboxes& mailboxes_;
  NodeCalls& calls_;
  const peer::FailurePolicy policy_;
  const int64_t timeout_ms_;
  peer::ParcelSender* sender_ = nullptr;  // null: this node is alone
  uint64_t last_number_ = 0;              // of the rounds in which this worker asks other nodes
  std::vector<std::unique_ptr<Visit>> parcels_;
  std::vector<Visit*> free_;
};

}  // namespace sluice::server
