// Extends the reservations of guards that want it, as long as the guards live. Part of Client.
// Flow:   add() -> the I/O thread calls renew_due() -> an extend() of each that is due -> its
//         outcome sets the time of the next one.
// Shape:  renewed at every third of its lifetime; after an attempt that failed, at every tenth. One
//         that is not held any more is left alone, because its holder may have left.
// Threads: add() any; renew_due() the I/O thread; outcomes any. No call is made under the lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "sluicegate/quota.hpp"

namespace sluicegate {

// How long the holder of a reservation may count on it; shared by its guard and the renewals.
class Tenure {
 public:
  using Clock = std::chrono::steady_clock;

  Tenure(uint64_t reservation, std::chrono::milliseconds lifetime, Clock::time_point until)
      : reservation_{reservation}, lifetime_{lifetime}, until_{until} {}

  uint64_t reservation() const noexcept { return reservation_; }
  std::chrono::milliseconds lifetime() const noexcept { return lifetime_; }
  bool is_held(Clock::time_point now) const noexcept { return now < until_.load(); }
  // The server may shorten it, and its answer be lost.
  void may_end(Clock::time_point at) noexcept {
    if (at < until_.load()) until_ = at;
  }
  void extend(Clock::time_point until) noexcept { until_ = until; }
  void lose() noexcept { until_ = Clock::time_point::min(); }

 private:
  const uint64_t reservation_;
  const std::chrono::milliseconds lifetime_;  // as renewed
  std::atomic<Clock::time_point> until_;
};

class Renewals {
 public:
  using Clock = Tenure::Clock;
  using Done = std::function<void(const QuotaOutcome&)>;

  struct Parts {
    std::function<Clock::time_point()> now;
    std::function<void(const Tenure&, std::chrono::milliseconds timeout, Done)> extend;
    std::function<void()> wake;  // the I/O thread, as something is due earlier
  };

  explicit Renewals(Parts parts) : parts_{std::move(parts)} {}

  // The guard has the only other reference: without it nothing is renewed.
  void add(const std::shared_ptr<Tenure>& tenure);
  // Renews what is due; returns when something is due again.
  Clock::time_point renew_due();

 private:
  static constexpr int renewals = 3;  // in a lifetime: two may fail
  static constexpr int retries = 10;  // in a lifetime, after a renewal that failed

  void schedule(const std::weak_ptr<Tenure>& tenure, Clock::time_point at);
  void note(const std::weak_ptr<Tenure>& renewed, Clock::time_point since,
            const QuotaOutcome& outcome);

  const Parts parts_;
  std::mutex mutex_;
  std::multimap<Clock::time_point, std::weak_ptr<Tenure>> due_;
  std::atomic<bool> is_idle_{true};  // nothing is renewed
};

}  // namespace sluicegate
