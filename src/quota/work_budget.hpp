// Bounds the work of one step where many subjects move at once: later steps do the rest.
// Flow:   refill() as a step begins -> spend() for each check -> may_go_on() before the next.
// Units:  checks of a subject; each waiter, timer or queue costs one beside those at its subjects.
// Lives:  one thread only. A step finishes what it has begun, and so may overdraw its budget.
#pragma once

#include <cstdint>

namespace sluice::quota {

class WorkBudget {
 public:
  explicit WorkBudget(uint32_t step_work) noexcept : step_work_(step_work), left_(step_work) {}

  void refill() noexcept { left_ = step_work_; }
  void spend(uint32_t subjects_count) noexcept { left_ -= int64_t{subjects_count} + 1; }
  bool may_go_on() const noexcept { return left_ > 0; }

 private:
  const int64_t step_work_;
  int64_t left_;
};

}  // namespace sluice::quota
