// Quota calls that another node decides, on their way there and back.
// Flow:   whoever asks fills it -> ParcelSender::post() -> a Lane writes it as one ForwardQuota
//         frame -> the answers lie in its batch -> Peers::deliver() hands it back.
// Errors: `is_answered` is false: the owner cannot be asked, has not answered in time, or its lane
//         was lost. A parcel is never written twice.
// Lives:  whoever asks owns it, and lends it from post() until it is handed back.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "route/node_map.hpp"

namespace sluice::peer {

struct QuotaParcel {
  api::QuotaBatch batch;       // its texts live as long as it is lent
  route::TargetId target = 0;  // later: the one whose lane has taken it
  int64_t timeout_ms = 0;      // of the answer
  int64_t deadline_ms = 0;     // when that has passed, by the clock of Peers; set by post()
  bool has_caller = true;      // false: the node's own calls, as those that it repeats
  bool is_answered = false;
  api::NodeFailure failure = api::NodeFailure::silent;  // if it is not

  enum class Of : uint8_t { calls, visit, moved_quotas };
  Of of = Of::calls;  // NodeCalls, NodeVisits or MovedQuotas

  // Whether calls that the other node keeps may wait for it: a verdict on what that holds, or the
  // end of a part. It waits for none itself.
  bool goes_first() const noexcept {
    return of == Of::visit && batch.pass != api::Pass::look && batch.pass != api::Pass::ask &&
           batch.pass != api::Pass::await;
  }
};

class ParcelSender {
 public:
  // Handed back in a later turn.
  virtual void post(QuotaParcel& parcel) noexcept = 0;

 protected:
  ~ParcelSender() = default;
};

}  // namespace sluice::peer
