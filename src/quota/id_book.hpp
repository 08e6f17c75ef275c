// Ids of reservations, and the records of those that have ended: a repeat gets the same answer.
// Shape:  an id is shard (8 bits), place (24), nonce (32). There is a record for every id, found by
//         its place, without a hash. Records are used again in the order in which reservations
//         ended, so that the one that ended first is forgotten first; which records come next is
//         known, so that they can be fetched ahead.
// Errors: none: there are twice as many records as reservations may be open.
// Lives:  one thread only; never allocates after construction.
#pragma once

#include <cstdint>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"
#include "base/splitmix.hpp"

namespace sluice::quota {

struct alignas(64) IdRecord {  // a cache line
  static constexpr uint32_t ended = 0xFFFF'FFFF;

  uint64_t id = 0;
  uint32_t reservation = ended;  // its index, until only the record is left
  api::ReservationState state = api::ReservationState::none;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool late = false;
  int64_t forgotten_ms = 0;  // ended: when its lifetime would have ended
  api::Amounts amounts;      // ended: what stays charged
};

class IdBook {
 public:
  // Another seed gives ids other nonces: ids of an earlier start are unknown.
  IdBook(uint32_t open_max, uint32_t shard, uint64_t seed)
      : capacity_(2 * open_max + 1),
        shard_(shard),
        nonce_seed_(seed),
        records_(size_t{capacity_} * sizeof(IdRecord), "ids of reservations (--max-reservations)"),
        queue_(size_t{capacity_} * sizeof(Place), "ids of reservations (--max-reservations)") {
    ASSERT(capacity_ <= place_mask);
    records_.advise_huge();
  }

  // A new id; its record leads to this reservation.
  uint64_t assign(uint32_t reservation, int64_t now_ms) noexcept {
    const Place place = take(now_ms);
    const uint64_t id = new_id(place);
    record(place) = {.id = id, .reservation = reservation};
    return id;
  }

  // Null: the id was never given, or is forgotten.
  const IdRecord* find(uint64_t id, int64_t now_ms) const noexcept {
    const Place place = place_of(id);
    if (place >= fresh_ || record(place).id != id) return nullptr;
    const IdRecord& found = record(place);
    const bool forgotten = found.reservation == IdRecord::ended && found.forgotten_ms <= now_ms;
    return forgotten ? nullptr : &found;
  }

  // The record of an id that leads to a reservation; it is written before end().
  IdRecord& record_of(uint64_t id) noexcept { return record(place_of(id)); }

  // The record stays until it is used again.
  void end(uint64_t id) noexcept {
    const uint64_t last = uint64_t{first_} + queued_++;
    queue()[last < capacity_ ? last : last - capacity_] = place_of(id);
  }

  SLUICE_PREFETCH_FUNCTION void prefetch(uint64_t id) const noexcept {
    prefetch_place(place_of(id));
  }
  // Fetches the record that assign() will use after `ahead` more calls.
  SLUICE_PREFETCH_FUNCTION void prefetch_next(uint32_t ahead) const noexcept {
    if (ahead >= queued_) return;
    const uint64_t at = uint64_t{first_} + ahead;
    prefetch_place(queue()[at < capacity_ ? at : at - capacity_]);
  }

  uint64_t reserved_bytes() const noexcept { return records_.size() + queue_.size(); }

 private:
  using Place = uint32_t;
  static constexpr Place place_mask = 0xFF'FFFF;
  static_assert(2 * limits::reservations_max + 1 <= place_mask && limits::shards_max <= 256);

  static Place place_of(uint64_t id) noexcept { return static_cast<Place>(id >> 32) & place_mask; }
  uint64_t new_id(Place place) noexcept {
    const uint64_t drawn = nonce_seed_ + ++ids_assigned_;
    const uint64_t nonce = base::splitmix64(drawn + base::splitmix64_step) >> 32;
    return (uint64_t{shard_} << 56) | (uint64_t{place} << 32) | nonce;
  }

  // The place of a record that is forgotten, else a fresh one, else that of the id that ended
  // first.
  Place take(int64_t now_ms) noexcept {
    const bool forgotten = queued_ > 0 && record(front()).forgotten_ms <= now_ms;
    if (!forgotten && fresh_ < capacity_) return fresh_++;
    ASSERT(queued_ > 0);
    const Place place = front();
    first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
    --queued_;
    return place;
  }

  SLUICE_PREFETCH_FUNCTION void prefetch_place(Place place) const noexcept {
    if (place < fresh_) __builtin_prefetch(&record(place));
  }
  IdRecord& record(Place place) const noexcept {
    return reinterpret_cast<IdRecord*>(records_.data())[place];
  }
  Place* queue() const noexcept { return reinterpret_cast<Place*>(queue_.data()); }
  Place front() const noexcept { return queue()[first_]; }

  const uint32_t capacity_;
  const uint32_t shard_;
  const uint64_t nonce_seed_;
  base::MappedRegion records_;
  base::MappedRegion queue_;  // places of ended ids, a ring
  uint32_t first_ = 0;
  uint32_t queued_ = 0;
  uint32_t fresh_ = 0;  // never used from here on
  uint64_t ids_assigned_ = 0;
};

}  // namespace sluice::quota
