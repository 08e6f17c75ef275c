// Catches allocations where there must be none: counts every operator new of a thread.
// Flow:   link allocation_guard.cpp into a test; AllocationGuard guard; ...; guard.count().
// Errors: a ForbidAllocation aborts at the first operator new of its thread, with a core or a
//         sanitizer's stack naming the culprit.
// Lives:  per thread; other threads of the test allocate freely.
#pragma once

#include <cstdint>

namespace sluice::support {

// Calls of operator new by this thread so far.
uint64_t allocations_of_thread() noexcept;

class AllocationGuard {
 public:
  AllocationGuard() noexcept : start_(allocations_of_thread()) {}
  uint64_t count() const noexcept { return allocations_of_thread() - start_; }

 private:
  uint64_t start_;
};

class ForbidAllocation {
 public:
  ForbidAllocation() noexcept;
  ~ForbidAllocation();
  ForbidAllocation(const ForbidAllocation&) = delete;
  ForbidAllocation& operator=(const ForbidAllocation&) = delete;
};

}  // namespace sluice::support
