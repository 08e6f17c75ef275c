// Withdraw frames of a connection whose targets have no verdicts yet, because another node is to
// decide them: they wait for these, and the frames behind them do not.
// Flow:   a Withdraw comes -> keep(); its target is answered -> take().
// Bounds: withdrawals_max of them, each with at most entries_max positions; the session reads no
//         further while it has one that does not fit.
#pragma once

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>

#include "wire/capnp_codec.hpp"

namespace sluice::session {

class PendingWithdrawals {
 public:
  static constexpr size_t withdrawals_max = 64;
  static constexpr size_t entries_max = 16;

  struct Withdrawal {
    uint64_t id = 0;
    uint64_t target = 0;
    boost::container::static_vector<uint32_t, entries_max> entries;  // none: all that wait
  };

  // False: it does not fit.
  bool keep(uint64_t id, const wire::WithdrawRequest& request) noexcept {
    const bool fits =
        withdrawals_.size() < withdrawals_max && request.entries.size() <= entries_max;
    if (!fits) return false;
    withdrawals_.push_back({.id = id, .target = request.target, .entries = {}});
    withdrawals_.back().entries.assign(request.entries.begin(), request.entries.end());
    return true;
  }

  bool holds(uint64_t id) const noexcept {
    return std::ranges::find(withdrawals_, id, &Withdrawal::id) != withdrawals_.end();
  }

  // Removes the oldest with this target.
  std::optional<Withdrawal> take(uint64_t target) noexcept {
    const auto at = std::ranges::find(withdrawals_, target, &Withdrawal::target);
    if (at == withdrawals_.end()) return std::nullopt;
    const Withdrawal taken = *at;
    withdrawals_.erase(at);
    return taken;
  }

 private:
  boost::container::static_vector<Withdrawal, withdrawals_max> withdrawals_;
};

}  // namespace sluice::session
