// Request ids: one sequence for the whole process, from 1, as gocc's.
// Flow:  a worker takes the ids of what it decided in a turn with one relaxed fetch_add, and those
//        of each request that was split over shards with one more, when it is complete.
// Lives: the only word that all workers share on the request path.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::server {

class RequestIds {
 public:
  // The first of `count` consecutive ids for the caller alone.
  uint64_t take(uint64_t count) noexcept {
    return next_.fetch_add(count, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> next_{1};
};

}  // namespace sluice::server
