// The places of a pool whose objects have changed: since the last cut, and before it as far as the
// cut has not written them yet.
// Flow:   add() at a change -> freeze() at a cut -> next_frozen(), remove_frozen() until none is
//         left. remove() when a new object is gone again.
// Shape:  two maps of bits, one of which is empty between two cuts; freeze() exchanges them. So
//         however often an object comes and goes between two cuts, it costs a bit.
// Errors: the constructor throws as MappedRegion does.
// Bounds: places_max. Looking for the next ones passes over 64 places that did not change at a
//         time.
// Lives:  one thread only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/mapped_array.hpp"

namespace sluice::quota {

class ChangedPlaces {
 public:
  ChangedPlaces(uint32_t places_max, std::string_view purpose)
      : maps_{Map(words_of(places_max), purpose), Map(words_of(places_max), purpose)},
        live_(maps_[0].data()),
        frozen_(maps_[1].data()) {}

  // The place is not in it.
  void add(uint32_t place) noexcept {
    live_[place / 64] |= bit_of(place);
    ++live_count_;
    live_end_ = std::max(live_end_, place / 64 + 1);
  }
  // The place is in it.
  void remove(uint32_t place) noexcept {
    live_[place / 64] &= ~bit_of(place);
    --live_count_;
  }

  // Those of the last cut have all been written.
  void freeze() noexcept {
    ASSERT(frozen_count_ == 0);
    std::swap(live_, frozen_);
    frozen_count_ = std::exchange(live_count_, 0);
    frozen_end_ = std::exchange(live_end_, 0);
    at_ = 0;
  }

  bool has_live() const noexcept { return live_count_ > 0; }
  bool has_frozen() const noexcept { return frozen_count_ > 0; }
  uint32_t frozen_count() const noexcept { return frozen_count_; }
  void remove_frozen(uint32_t place) noexcept {
    frozen_[place / 64] &= ~bit_of(place);
    --frozen_count_;
  }

  // Fills in the first frozen places, and returns how many there are.
  size_t next_frozen(std::span<uint32_t> places) noexcept {
    size_t found = 0;
    for (uint32_t at = at_; found < places.size() && at < frozen_end_; ++at) {
      uint64_t bits = frozen_[at];
      if (bits == 0 && at == at_) ++at_;
      for (; bits != 0 && found < places.size(); bits &= bits - 1) {
        places[found++] = at * 64 + static_cast<uint32_t>(std::countr_zero(bits));
      }
    }
    return found;
  }

  uint64_t reserved_bytes() const noexcept {
    return maps_[0].reserved_bytes() + maps_[1].reserved_bytes();
  }

 private:
  using Map = base::MappedArray<uint64_t>;

  static size_t words_of(uint32_t places) noexcept { return size_t{places} / 64 + 1; }
  static uint64_t bit_of(uint32_t place) noexcept { return uint64_t{1} << (place % 64); }

  std::array<Map, 2> maps_;
  uint64_t* live_;    // the map of those that have changed since the last cut
  uint64_t* frozen_;  // the other one
  uint32_t live_count_ = 0;
  uint32_t live_end_ = 0;  // the words from here on are empty
  uint32_t frozen_count_ = 0;
  uint32_t frozen_end_ = 0;
  uint32_t at_ = 0;  // the frozen words before are empty
};

}  // namespace sluice::quota
