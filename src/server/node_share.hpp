// What other nodes decide of a task's batch, and the parcels that bring it there.
// Lives:  NodeCalls fills and empties them.
#pragma once

#include <cstdint>
#include <vector>

#include "api/quota.hpp"
#include "peer/quota_parcel.hpp"

namespace sluice::server {

struct QuotaTask;
struct NodeParcel;

struct NodeShare {
  std::vector<api::QuotaCall> calls;      // all of the batch; empty: this node decides them all
  std::vector<api::QuotaAnswer> answers;  // of the same indexes, once all are known
  std::vector<uint32_t> own;              // places of those that this node decides
  std::vector<NodeParcel*> parcels;       // that have returned
  uint32_t under_way = 0;                 // parcels
  bool is_decided_here = false;

  bool is_open() const noexcept { return !calls.empty(); }
};

// A call of the worker's own about another node's reservations.
struct OwnNodeCall {
  api::QuotaCall call;
  route::TargetId target = 0;  // end_binding
  int64_t due_ms = 0;          // when it is sent next
  int64_t ends_ms = 0;         // when it is given up
  bool is_repeat = false;
};

struct NodeParcel : peer::QuotaParcel {
  QuotaTask* task = nullptr;     // null: calls of the worker's own
  std::vector<uint32_t> places;  // of its calls, in the task's batch
  std::vector<OwnNodeCall> own_calls;
  size_t bytes = 0;  // of its frame
};

}  // namespace sluice::server
