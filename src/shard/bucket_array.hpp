// The buckets of one size of the key table, in position order. A growing table has two of them.
// Shape:  buckets are searched from the key's home on, around the end. Beside each slot a cold
//         record has the place of the key's text and its position, so growing hashes nothing again.
// Errors: the constructor throws std::system_error when there is no address space.
#pragma once

#include <bit>
#include <cstdint>

#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"
#include "shard/bucket.hpp"
#include "shard/key_hash.hpp"

namespace sluice::shard {

struct ColdSlot {
  uint32_t text;  // KeyText's reference
  uint32_t position;
};

class BucketArray {
 public:
  explicit BucketArray(uint32_t buckets_max);

  // Opens a closed array with so many buckets, all empty.
  void open(uint32_t buckets_count) noexcept;
  // Frees the memory; every slot is empty.
  void close() noexcept;
  // Frees the memory of these buckets, which are empty, in whole large pages; but not the first
  // one: there lie keys of the last homes, around the end.
  void discard_before(uint32_t end) noexcept;
  static constexpr uint32_t buckets_in_page = base::huge_page_bytes / sizeof(Bucket);

  uint32_t buckets_count() const noexcept { return buckets_count_; }
  Bucket& bucket(uint32_t index) const noexcept { return buckets_[index]; }

  uint32_t home(uint32_t position) const noexcept {
    return static_cast<uint32_t>(uint64_t{position} * buckets_count_ >> 32);
  }
  // The lowest position with bucket `index` as its home; 2^32 for the bucket after the last.
  uint64_t first_position(uint32_t index) const noexcept {
    return ((uint64_t{index} << 32) + buckets_count_ - 1) / buckets_count_;
  }
  uint32_t after(uint32_t index) const noexcept {
    return index + 1 == buckets_count_ ? 0 : index + 1;
  }

  SLUICE_PREFETCH_FUNCTION void prefetch(uint32_t position) const noexcept {
    __builtin_prefetch(&buckets_[home(position)], 1);
  }

  // Searches only the key's home, which prefetch() has fetched. Without a branch: whether the key
  // overflowed is unpredictable.
  [[gnu::always_inline]] Place find_at_home(const KeyHash& hash) const noexcept {
    Bucket& bucket = buckets_[home(hash.position)];
    return {&bucket, Bucket::slot_of(bucket.match(hash.tag))};
  }
  // For a key that is not at its home: prefetches the next buckets when it may lie there.
  SLUICE_PREFETCH_FUNCTION void prefetch_next(uint32_t position) const noexcept {
    const Bucket& bucket = buckets_[home(position)];
    if (bucket.overflow == 0) return;
    for (int next = 1; next <= 3; ++next) __builtin_prefetch(&bucket + next, 1);
  }

  Place find(const KeyHash& hash) const noexcept {
    const uint32_t home_index = home(hash.position);
    uint32_t index = home_index;
    do {
      Bucket& bucket = buckets_[index];
      const uint32_t found = bucket.match(hash.tag);
      if (found != 0) return {&bucket, static_cast<uint32_t>(std::countr_zero(found))};
      if (bucket.overflow == 0) return {};
      index = after(index);
    } while (index != home_index);  // in a tiny table every bucket may have an overflow
    return {};
  }

  // The key is absent, and a slot is free. The caller writes the window.
  Place insert(const KeyHash& hash, uint32_t text) noexcept;
  void erase(Place place) noexcept;

  bool holds(Place place) const noexcept {
    return place.bucket >= buckets_ && place.bucket < buckets_ + buckets_count_;
  }
  ColdSlot& cold(Place place) const noexcept {
    return cold_[index_of(place) * Bucket::slots_count + place.slot];
  }
  uint64_t reserved_bytes() const noexcept { return hot_region_.size() + cold_region_.size(); }

  // Aborts unless every key can be found and every overflow is exact. Returns the keys.
  uint32_t check_invariants() const noexcept;

 private:
  size_t index_of(Place place) const noexcept {
    return static_cast<size_t>(place.bucket - buckets_);
  }

  base::MappedRegion hot_region_;
  base::MappedRegion cold_region_;
  Bucket* buckets_;
  ColdSlot* cold_;
  uint32_t buckets_count_ = 0;
  uint32_t discarded_buckets_ = 0;
};

}  // namespace sluice::shard
