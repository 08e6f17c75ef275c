// Which reservations the answers of a connection tell that are not sent yet, in their order.
// Flow:   an answer is written -> add(); a send is over -> forget_before(); the connection ends
//         before all is sent -> behind().
// Shape:  ordered by send and place in it, so both ends of a part are found by halving; whoever is
//         forgotten stands in front. Each stays until the next answer after its send.
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

struct ToldReservation {
  uint64_t reservation;
  uint64_t send;     // OutputBuffer::sends_count(), when the answer is on its way
  size_t end_bytes;  // of the answer, in what that send sends
};

class ToldList {
 public:
  void add(const ToldReservation& told) {
    ASSERT(told_.empty() || place_of(told_.back()) < place_of(told));
    told_.push_back(told);
  }

  // Whatever was told by sends before this one. Those that stay move up, once for each send.
  void forget_before(uint64_t send) noexcept {
    told_.erase(told_.begin(), std::ranges::lower_bound(told_, send, {}, &ToldReservation::send));
  }

  // What this send was to tell with bytes behind its first ones.
  std::span<const ToldReservation> behind(uint64_t send, size_t taken_bytes) const noexcept {
    const auto first = std::ranges::upper_bound(told_, Place{send, taken_bytes}, {}, place_of);
    const auto end = std::ranges::upper_bound(told_, send, {}, &ToldReservation::send);
    return {first, end};
  }

  size_t size() const noexcept { return told_.size(); }

 private:
  using Place = std::tuple<uint64_t, size_t>;
  static Place place_of(const ToldReservation& told) noexcept {
    return {told.send, told.end_bytes};
  }

  std::vector<ToldReservation> told_;
};

}  // namespace sluice::session
