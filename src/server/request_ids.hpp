// Request ids: one sequence for the whole process, from 1, as gocc's.
// Flow:  a worker takes the ids of what it decided in a loop turn with one relaxed fetch_add, and
//        those of each request that was split over cores with one more, when it is complete.
// Lives: the only word that cores share on the request path.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::server {

class RequestIds {
 public:
  // The first of `count` ids that nobody else gets.
  uint64_t take(uint64_t count) noexcept {
    return next_.fetch_add(count, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> next_{1};
};

}  // namespace sluice::server
