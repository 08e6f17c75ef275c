// Reservations that were settled or cancelled, so that a repeat gets the same answer.
// Shape:  a ring of small records, the oldest overwritten first, and an index by id. What is
//         remembered of an open reservation beside (timer, subjects, charge) is free at once.
// Errors: none: what does not fit any more is forgotten.
// Lives:  one core; never allocates after construction.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "base/mapped_region.hpp"
#include "quota/hash_index.hpp"

namespace sluice::quota {

struct Ended {
  uint64_t id = 0;
  api::Amounts amounts;
  int64_t forgotten_ms = 0;  // when its lifetime would have ended
  api::ReservationState state = api::ReservationState::none;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool late = false;
};

class EndedBook {
 public:
  explicit EndedBook(uint32_t capacity)
      : capacity_(capacity),
        region_(size_t{capacity} * sizeof(Ended), "ended reservations (--max-reservations)"),
        index_(capacity, "ended reservations (--max-reservations)") {
    region_.advise_huge();
  }

  void add(const Ended& ended) noexcept {
    Ended& place = records()[next_];
    if (place.id != 0) index_.erase(hash(place.id), next_);
    place = ended;
    index_.insert(hash(ended.id), next_);
    next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
  }

  // Null: never added, or forgotten.
  const Ended* find(uint64_t id, int64_t now_ms) const noexcept {
    const uint32_t found =
        index_.find(hash(id), [&](uint32_t number) { return records()[number].id == id; });
    if (found == HashIndex::none || records()[found].forgotten_ms <= now_ms) return nullptr;
    return &records()[found];
  }

  // What add() will touch for this id, when `ahead` others were added before.
  [[gnu::always_inline]] void prefetch(uint64_t id, uint32_t ahead) const noexcept {
    index_.prefetch(hash(id));
    const uint32_t place = next_ + ahead;
    if (place < capacity_) index_.prefetch(hash(records()[place].id));
  }

  uint64_t reserved_bytes() const noexcept { return region_.size() + index_.reserved_bytes(); }

 private:
  // An id's lower half is random; the index tells entries apart by the upper half of a hash.
  static uint64_t hash(uint64_t id) noexcept { return id * 0x9E37'79B9'7F4A'7C15; }
  Ended* records() const noexcept { return reinterpret_cast<Ended*>(region_.data()); }

  uint32_t capacity_;
  base::MappedRegion region_;
  HashIndex index_;
  uint32_t next_ = 0;
};

}  // namespace sluice::quota
