#include "renewals.hpp"

#include <utility>
#include <vector>

namespace sluicegate {
namespace {

// No answer, or one of a node that could not ask the reservation's.
bool may_succeed_later(const QuotaOutcome& outcome) {
  if (outcome.failure == Failure::none) return may_retry(outcome.code);
  return outcome.failure != Failure::refused && outcome.failure != Failure::closed;
}

}  // namespace

void Renewals::add(const std::shared_ptr<Tenure>& tenure) {
  schedule(tenure, parts_.now() + tenure->lifetime() / renewals);
}

void Renewals::schedule(const std::weak_ptr<Tenure>& tenure, Clock::time_point at) {
  {
    const std::lock_guard lock{mutex_};
    due_.emplace(at, tenure);
    is_idle_ = false;
  }
  parts_.wake();
}

Renewals::Clock::time_point Renewals::renew_due() {
  if (is_idle_) return Clock::time_point::max();
  const auto now = parts_.now();
  std::vector<std::weak_ptr<Tenure>> due;
  {
    const std::lock_guard lock{mutex_};
    const auto end = due_.upper_bound(now);
    for (auto each = due_.begin(); each != end; ++each) due.push_back(std::move(each->second));
    due_.erase(due_.begin(), end);
  }
  for (const auto& each : due) {
    const auto tenure = each.lock();
    if (!tenure || !tenure->is_held(now)) continue;
    parts_.extend(*tenure, tenure->lifetime() / renewals,
                  [this, each, now](const QuotaOutcome& outcome) { note(each, now, outcome); });
  }
  const std::lock_guard lock{mutex_};
  is_idle_ = due_.empty();
  return due_.empty() ? Clock::time_point::max() : due_.begin()->first;
}

void Renewals::note(const std::weak_ptr<Tenure>& renewed, Clock::time_point since,
                    const QuotaOutcome& outcome) {
  const auto tenure = renewed.lock();
  const auto now = parts_.now();
  if (!tenure || !tenure->is_held(now)) return;
  const auto lifetime = tenure->lifetime();
  if (outcome.failure == Failure::none && outcome.admitted()) {
    tenure->extend(since + lifetime);
    schedule(renewed, now + lifetime / renewals);
  } else if (may_succeed_later(outcome)) {
    schedule(renewed, now + lifetime / retries);
  } else {
    tenure->lose();
  }
}

}  // namespace sluicegate
