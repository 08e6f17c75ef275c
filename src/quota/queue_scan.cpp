#include "quota/queue_scan.hpp"

#include <utility>

#include "quota/obstacle.hpp"

namespace sluice::quota {

// False: the queue is not to be looked through, or not now.
bool QueueScan::begin(SubjectIndex index) noexcept {
  Subject& subject = subjects_[index];
  if (index_ != no_subject && index_ != index) {
    if (subject.to_scan) budget_.spend(0);
    return false;
  }
  if (std::exchange(subject.to_scan, false)) {
    index_ = index;
    seen_ = before_all;
  }
  return index_ == index;
}

// By this subject's quota alone: those of the others are checked when they change.
bool QueueScan::rules_out(SubjectIndex index, const Waiter& waiter) noexcept {
  budget_.spend(1);
  LimitedSubjects own;
  subjects_.read_limited_subject(index, own.emplace_back());
  if (own.front().quota == nullptr) return book_.denies_unknown();
  return find_obstacle(own, waiter.request.shares(), clock_.moment()).fits_at_ns == base::never_ns;
}

}  // namespace sluice::quota
