// The reservations whose answers a connection has written and not yet sent, in their order.
// Flow:   an answer is written -> add(); a send is over -> forget_before(); the connection ends
//         before all is sent -> behind().
// Shape:  ordered by send and place in it, so that both ends of a part are found by halving; the
//         forgotten ones stand in front. Each stays until the next answer after its send.
// Units:  bytes.
// Lives:  as long as its session. Bounded by the answers that fit into a connection's output
//         (docs/architecture.md); grows on the heap, as REST's quotas may, and keeps its memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "base/assert.hpp"

namespace sluice::session {

struct UndeliveredReservation {
  uint64_t reservation;
  uint64_t send;     // OutputBuffer::sends_count(), when the answer is on its way
  size_t end_bytes;  // of the answer, in what that send sends
};

class UndeliveredList {
 public:
  void add(const UndeliveredReservation& added) {
    ASSERT(list_.empty() || place_of(list_.back()) < place_of(added));
    list_.push_back(added);
  }

  // Those of sends before this one. Those that stay move up, once for each send.
  void forget_before(uint64_t send) noexcept {
    list_.erase(list_.begin(),
                std::ranges::lower_bound(list_, send, {}, &UndeliveredReservation::send));
  }

  // Those of this send whose answers end behind its first bytes.
  std::span<const UndeliveredReservation> behind(uint64_t send, size_t taken_bytes) const noexcept {
    const auto first = std::ranges::upper_bound(list_, Place{send, taken_bytes}, {}, place_of);
    const auto end = std::ranges::upper_bound(list_, send, {}, &UndeliveredReservation::send);
    return {first, end};
  }

  size_t size() const noexcept { return list_.size(); }

 private:
  using Place = std::tuple<uint64_t, size_t>;
  static Place place_of(const UndeliveredReservation& undelivered) noexcept {
    return {undelivered.send, undelivered.end_bytes};
  }

  std::vector<UndeliveredReservation> list_;
};

}  // namespace sluice::session
