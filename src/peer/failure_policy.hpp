// The answer to a caller whose key's owner does not answer (--peer-failure).
// Shape:  `closed` and `open` answer requests for permits only. A release that reaches nobody and a
//         look that sees nothing have failed, whatever the policy.
#pragma once

#include <cstdint>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "api/verdict.hpp"
#include "base/peer_failure.hpp"

namespace sluice::peer {

class FailurePolicy {
 public:
  static constexpr int64_t retry_after_ms = 1'000;  // of `closed`, and of quota calls

  explicit FailurePolicy(base::PeerFailure on_failure) noexcept : on_failure_(on_failure) {}

  bool stands_in() const noexcept { return on_failure_ == base::PeerFailure::local; }
  api::Verdict verdict(api::Op op) const noexcept {
    if (op != api::Op::acquire) return api::Verdict::owner_unreachable;
    if (on_failure_ == base::PeerFailure::closed) return api::Verdict::denied;
    if (on_failure_ == base::PeerFailure::open) return api::Verdict::approved;
    return api::Verdict::owner_unreachable;
  }
  api::Detail detail(api::Op op) const noexcept {
    if (op != api::Op::acquire) return {};
    if (on_failure_ == base::PeerFailure::closed) return {.retry_after_ms = retry_after_ms};
    return {.is_degraded = on_failure_ == base::PeerFailure::open};
  }
  // Quota calls are decided by their owner alone.
  api::QuotaAnswer answer(api::QuotaOp op) const noexcept {
    const bool denies = on_failure_ == base::PeerFailure::closed &&
                        (api::asks_admission(op) || op == api::QuotaOp::check);
    return {.code = denies ? api::QuotaCode::failed_closed : api::QuotaCode::owner_unreachable,
            .retry_after_ms = retry_after_ms};
  }

 private:
  const base::PeerFailure on_failure_;
};

}  // namespace sluice::peer
