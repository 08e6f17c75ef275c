// Ids of reservations, and what is remembered of those that have ended: a repeat gets the same
// answer.
// Shape:  a record for every id, found by the place that the id names, without a hash. A record is
//         used again in the order in which reservations ended, so that whoever ended first is
//         forgotten first; how the memory is walked can be foreseen, and fetched ahead.
// Errors: none: there are twice as many records as reservations may be open.
// Lives:  one core; never allocates after construction.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/mapped_region.hpp"

namespace sluice::quota {

struct alignas(64) IdRecord {  // a cache line
  static constexpr uint32_t ended = 0xFFFF'FFFF;

  uint64_t id = 0;
  uint32_t reservation = ended;  // its number, while there is more of it than this
  api::ReservationState state = api::ReservationState::none;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool late = false;
  int64_t forgotten_ms = 0;  // ended: when its lifetime would have
  api::Amounts amounts;      // ended: what stays charged
};

class IdBook {
 public:
  using Place = uint32_t;

  explicit IdBook(uint32_t open_max)
      : capacity_(2 * open_max + 1),
        records_(size_t{capacity_} * sizeof(IdRecord), "ids of reservations (--max-reservations)"),
        queue_(size_t{capacity_} * sizeof(Place), "ids of reservations (--max-reservations)") {
    records_.advise_huge();
  }

  // A record for a new id: of one that nobody will ask for any more, else a fresh one, else of the
  // one that ended first.
  Place take(int64_t now_ms) noexcept {
    const bool forgotten = queued_ > 0 && record(front()).forgotten_ms <= now_ms;
    if (!forgotten && fresh_ < capacity_) return fresh_++;
    ASSERT(queued_ > 0);
    const Place place = front();
    first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
    --queued_;
    return place;
  }

  // The record is written: it stays until it is taken again.
  void end(Place place) noexcept {
    const uint64_t last = uint64_t{first_} + queued_++;
    queue()[last < capacity_ ? last : last - capacity_] = place;
  }

  IdRecord& operator[](Place place) noexcept { return record(place); }

  // Null: never given, or forgotten.
  const IdRecord* find(uint64_t id, Place place, int64_t now_ms) const noexcept {
    if (place >= fresh_ || record(place).id != id) return nullptr;
    const IdRecord& found = record(place);
    const bool forgotten = found.reservation == IdRecord::ended && found.forgotten_ms <= now_ms;
    return forgotten ? nullptr : &found;
  }

  // Inlined always: to g++ 12 a function that only fetches ahead is one without effect.
  [[gnu::always_inline]] void prefetch(Place place) const noexcept {
    if (place < fresh_) __builtin_prefetch(&record(place));
  }
  // What take() will give when it was called `ahead` times.
  [[gnu::always_inline]] void prefetch_next(uint32_t ahead) const noexcept {
    if (ahead >= queued_) return;
    const uint64_t at = uint64_t{first_} + ahead;
    prefetch(queue()[at < capacity_ ? at : at - capacity_]);
  }

  uint32_t capacity() const noexcept { return capacity_; }
  uint64_t reserved_bytes() const noexcept { return records_.size() + queue_.size(); }

 private:
  IdRecord& record(Place place) const noexcept {
    return reinterpret_cast<IdRecord*>(records_.data())[place];
  }
  Place* queue() const noexcept { return reinterpret_cast<Place*>(queue_.data()); }
  Place front() const noexcept { return queue()[first_]; }

  uint32_t capacity_;
  base::MappedRegion records_;
  base::MappedRegion queue_;  // of ended ones, a ring
  uint32_t first_ = 0;
  uint32_t queued_ = 0;
  uint32_t fresh_ = 0;  // never used from here on
};

}  // namespace sluice::quota
