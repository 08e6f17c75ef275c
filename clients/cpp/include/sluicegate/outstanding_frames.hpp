// The frames of a connection that the server has not answered yet, by id. Part of Connection.
// Shape:  open addressing with linear probing, at most half full. Ids count upwards, so a hash
//         scatters them: side by side they would form one long run, which every removal would have
//         to walk. The table grows to the number of frames that the server lets a client have in
//         flight, and never shrinks.
// Units:  bytes are those of the frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluicegate {

class OutstandingFrames {
 public:
  size_t count() const noexcept { return count_; }
  size_t bytes() const noexcept { return bytes_; }

  // The id must not be in the table.
  void add(uint64_t id, uint32_t frame_bytes) {
    if (2 * (count_ + 1) > places_.size()) grow();
    place_of_free(id) = {id, frame_bytes};
    ++count_;
    bytes_ += frame_bytes;
  }

  // False when the id is not in the table.
  bool remove(uint64_t id) noexcept {
    if (count_ == 0) return false;
    size_t at = home(id);
    while (places_[at].frame_bytes != 0 && places_[at].id != id) at = next(at);
    if (places_[at].frame_bytes == 0) return false;
    --count_;
    bytes_ -= places_[at].frame_bytes;
    close_gap(at);
    return true;
  }

 private:
  struct Place {
    uint64_t id = 0;
    uint32_t frame_bytes = 0;  // 0: free, as no frame is empty
  };

  static constexpr uint64_t scatter = 0x9E37'79B9'7F4A'7C15;  // 2^64 by the golden ratio

  size_t home(uint64_t id) const noexcept { return (id * scatter) >> 32 & (places_.size() - 1); }
  size_t next(size_t at) const noexcept { return (at + 1) & (places_.size() - 1); }

  Place& place_of_free(uint64_t id) noexcept {
    size_t at = home(id);
    while (places_[at].frame_bytes != 0) at = next(at);
    return places_[at];
  }

  // Moves entries up that a search would miss because it stops at the free place.
  void close_gap(size_t gap) noexcept {
    const size_t mask = places_.size() - 1;
    for (size_t at = next(gap); places_[at].frame_bytes != 0; at = next(at)) {
      const size_t from_home = (at - home(places_[at].id)) & mask;
      const size_t from_gap = (at - gap) & mask;
      if (from_home < from_gap) continue;
      places_[gap] = places_[at];
      gap = at;
    }
    places_[gap] = {};
  }

  void grow() {
    const std::vector<Place> old = std::exchange(places_, std::vector<Place>(next_size()));
    for (const Place& place : old) {
      if (place.frame_bytes != 0) place_of_free(place.id) = place;
    }
  }
  size_t next_size() const noexcept { return places_.empty() ? 32 : 2 * places_.size(); }

  std::vector<Place> places_;  // a power of two of them
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace sluicegate
