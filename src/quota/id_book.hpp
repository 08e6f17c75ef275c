// Ids of reservations, and the records of those that have ended: a repeat gets the same answer.
// Flow:   assign() leads an id to its reservation -> end() leads it to the record of its end, or
//         forget() to nothing. Records are used again in the order in which they were written, so
//         that the end that came first is forgotten first.
// Shape:  an index by the random bits of the ids (proto/reservation_id.hpp); a ring of records.
// Errors: none: as many ends are remembered as reservations may be open.
// Lives:  one thread only; never allocates after construction.
#pragma once

#include <bit>
#include <cstdint>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/mapped_array.hpp"
#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"
#include "base/splitmix.hpp"
#include "proto/reservation_id.hpp"
#include "quota/hash_index.hpp"

namespace sluice::quota {

struct alignas(64) IdRecord {  // a cache line
  uint64_t id = 0;
  api::ReservationState state = api::ReservationState::none;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool late = false;
  uint32_t recorded_in = 0;  // the cut from which on the file may have it; 0: it never has
  int64_t forgotten_ms = 0;  // when its lifetime would have ended
  api::Amounts amounts;      // what stays charged
};

class IdBook {
 public:
  static constexpr uint32_t none = HashIndex::none;

  // Another seed gives other ids. `slot`: of this node.
  IdBook(uint32_t reservations_max, uint64_t seed, uint16_t slot = proto::reservation_id::no_slot)
      : capacity_(reservations_max),
        seed_(seed),
        slot_(slot),
        index_(2 * reservations_max, purpose),
        records_(size_t{capacity_} * sizeof(IdRecord), purpose),
        recorded_(size_t{capacity_} / 64 + 1, purpose) {
    static_assert(limits::reservations_max < ended_bit);
    records_.advise_huge();
  }

  // A new id, which leads to this reservation.
  uint64_t assign(uint32_t reservation, uint16_t route, bool several) noexcept {
    uint64_t id = 0;
    if (ids_assigned_ % ids_fetched == 0) prefetch_next_ids(several);
    do {
      id = proto::reservation_id::make(route, several, random(ids_assigned_++), slot_);
    } while (id == 0 || !index_.insert_first(hash_of(id), reservation));
    return id;
  }

  // The id of another shard leads to this part of its reservation.
  void adopt(uint64_t id, uint32_t reservation) noexcept {
    index_.insert(hash_of(id), reservation);
  }

  // The reservation that an id leads to; `id_of` returns the id of a reservation. None: the id was
  // never given, or its reservation has ended.
  template <typename IdOf>
  uint32_t find(uint64_t id, IdOf id_of) const noexcept {
    return index_.find(hash_of(id), [&](uint32_t number) {
      return (number & ended_bit) == 0 && id_of(number) == id;
    });
  }
  // The record of its end. Null: it has not ended, or is forgotten.
  const IdRecord* find_end(uint64_t id, int64_t now_ms) const noexcept {
    const uint32_t found = index_.find(hash_of(id), [&](uint32_t number) {
      return (number & ended_bit) != 0 && record(number & ~ended_bit).id == id;
    });
    if (found == none) return nullptr;
    const IdRecord& end = record(found & ~ended_bit);
    return end.forgotten_ms <= now_ms ? nullptr : &end;
  }

  // The reservation of this id has ended: returns the record that the id now leads to, for the
  // caller to write all but the id.
  IdRecord& end(uint64_t id, uint32_t reservation) noexcept {
    IdRecord& next = record(next_);
    if (next.id != 0) index_.erase(hash_of(next.id), next_ | ended_bit);
    index_.replace(hash_of(id), reservation, next_ | ended_bit);
    next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
    next.id = id;
    return next;
  }
  void forget(uint64_t id, uint32_t reservation) noexcept {
    index_.erase(hash_of(id), reservation);
  }

  // An end of an earlier start; the last one comes first, and is forgotten last. False: there is no
  // place left.
  bool restore_end(const IdRecord& end) noexcept {
    if (restored_count_ == capacity_) return false;
    const uint32_t place = capacity_ - ++restored_count_;
    index_.insert(hash_of(end.id), place | ended_bit);
    record(place) = end;
    set_recorded(record(place), end.recorded_in);
    return true;
  }

  // Of an end that was written just now: the cut from which on the file may have it, or 0.
  void set_recorded(IdRecord& end, uint32_t cut) noexcept {
    const auto place = static_cast<uint32_t>(&end - &record(0));
    const uint64_t bit = uint64_t{1} << (place % 64);
    recorded_count_ += (cut == 0 ? 0 : 1) - ((recorded_[place / 64] & bit) == 0 ? 0 : 1);
    end.recorded_in = cut;
    cut == 0 ? recorded_[place / 64] &= ~bit : recorded_[place / 64] |= bit;
  }
  // Ends that the file may have, also of ids that were forgotten since.
  uint32_t recorded_count() const noexcept { return recorded_count_; }
  // The first place from `place` on of an end that the file may have; `none`: there is no more.
  uint32_t next_recorded(uint32_t place) const noexcept {
    if (place >= capacity_) return none;
    uint64_t bits = recorded_[place / 64] & ~uint64_t{0} << (place % 64);
    for (uint32_t word = place / 64;; bits = recorded_[word]) {
      if (bits != 0) return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
      if (++word >= recorded_.size()) return none;
    }
  }
  const IdRecord& end_at(uint32_t place) const noexcept { return record(place); }

  // Fetch ahead: what find() reads of the index; what end() will use after `ahead` more calls.
  SLUICE_PREFETCH_FUNCTION void prefetch(uint64_t id) const noexcept {
    index_.prefetch(hash_of(id));
  }
  SLUICE_PREFETCH_FUNCTION void prefetch_next_end(uint32_t ahead) const noexcept {
    const uint64_t at = uint64_t{next_} + ahead;
    index_.prefetch(hash_of(record(static_cast<uint32_t>(at < capacity_ ? at : 0)).id));
  }
  // The reservation that an id most probably leads to.
  uint32_t first_with(uint64_t id) const noexcept {
    const uint32_t number = index_.first_with(hash_of(id));
    return number == none || (number & ended_bit) != 0 ? none : number;
  }

  uint64_t reserved_bytes() const noexcept {
    return index_.reserved_bytes() + records_.size() + recorded_.reserved_bytes();
  }

 private:
  static constexpr const char* purpose = "ids of reservations (--max-reservations)";
  static constexpr uint32_t ended_bit = 0x8000'0000;  // of a number in the index: a record's place

  static constexpr uint32_t ids_fetched = 16;  // ahead, at once

  // The upper bits count those that follow one another; the lower ones are mixed, once for all of
  // these.
  static constexpr uint32_t count_bits = 8;
  static constexpr uint32_t mixed_bits = proto::reservation_id::random_bits - count_bits;
  static constexpr uint64_t count_mask = (uint64_t{1} << count_bits) - 1;
  static constexpr uint64_t mixed_mask = (uint64_t{1} << mixed_bits) - 1;

  // The index takes the upper half: ids that follow one another are in one page of 4 KiB, with a
  // gap behind each.
  static uint64_t hash_of(uint64_t id) noexcept {
    if (proto::reservation_id::has_several_shards(id)) return hash_of_several(id);
    const auto mixed = static_cast<uint32_t>(id & mixed_mask);
    const auto count = static_cast<uint32_t>(id >> mixed_bits & count_mask);
    return uint64_t{mixed << (count_bits + 1) | count << 1} << 32;
  }
  // Those of calls over several shards come from all of these, and their pages would crowd: each
  // 32 that follow one another have a place of their own.
  static uint64_t hash_of_several(uint64_t id) noexcept {
    constexpr uint64_t neighbours_mask = 31;
    const uint64_t neighbour = id >> mixed_bits & neighbours_mask;
    const uint64_t others =
        id & proto::reservation_id::random_mask & ~(neighbours_mask << mixed_bits);
    constexpr uint64_t place_mask = (neighbours_mask << 1 | 1) << 32;
    return (others * base::splitmix64_step & ~place_mask) | neighbour << 33;
  }

  // Each step can be undone, so that no number comes twice before all have come: a late call about
  // an id that is forgotten does not meet a new reservation. Bits depend on lower ones only, so
  // that pages that follow one another differ in the bits that the index uses.
  uint64_t random(uint64_t number) const noexcept {
    uint64_t mixed = (seed_ + (number >> count_bits)) * base::splitmix64_step;
    mixed = (mixed ^ (mixed << 13)) * 0xBF58'476D'1CE4'E5B9;
    const uint64_t count = (number + mixed) & count_mask;
    return count << mixed_bits | (mixed & mixed_mask);
  }
  // Those that follow one another are neighbours in the index, except where their count begins
  // anew.
  SLUICE_PREFETCH_FUNCTION void prefetch_next_ids(bool several) const noexcept {
    const uint64_t next = random(ids_assigned_ + ids_fetched);
    index_.prefetch(hash_of(proto::reservation_id::make(0, several, next, slot_)), 2 * ids_fetched);
  }
  IdRecord& record(uint32_t place) const noexcept {
    return reinterpret_cast<IdRecord*>(records_.data())[place];
  }

  const uint32_t capacity_;
  const uint64_t seed_;
  const uint16_t slot_;
  HashIndex index_;
  base::MappedRegion records_;
  base::MappedArray<uint64_t> recorded_;  // a bit for each: recorded_in is not 0
  uint32_t recorded_count_ = 0;
  uint32_t next_ = 0;  // the record of the next end; it has an older one when its id is not 0
  uint32_t restored_count_ = 0;  // of ends, from the last place downwards
  uint64_t ids_assigned_ = 0;
};

}  // namespace sluice::quota
