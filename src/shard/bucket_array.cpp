#include "shard/bucket_array.hpp"

#include <algorithm>
#include <vector>

#include "base/assert.hpp"

namespace sluice::shard {

BucketArray::BucketArray(uint32_t buckets_max)
    : hot_region_(size_t{buckets_max} * sizeof(Bucket), "key table (--max-keys)"),
      cold_region_(size_t{buckets_max} * Bucket::slots_count * sizeof(ColdSlot),
                   "key table (--max-keys)"),
      buckets_(reinterpret_cast<Bucket*>(hot_region_.data())),
      cold_(reinterpret_cast<ColdSlot*>(cold_region_.data())) {
  hot_region_.advise_huge();
  cold_region_.advise_huge();
}

void BucketArray::open(uint32_t buckets_count) noexcept {
  ASSERT(buckets_count_ == 0 && buckets_count > 0);
  ASSERT(size_t{buckets_count} * sizeof(Bucket) <= hot_region_.size());
  buckets_count_ = buckets_count;
}

void BucketArray::close() noexcept {
  hot_region_.discard(0, hot_region_.size());
  cold_region_.discard(0, cold_region_.size());
  buckets_count_ = 0;
  discarded_buckets_ = 0;
}

void BucketArray::discard_before(uint32_t end) noexcept {
  const auto discard = [&](base::MappedRegion& region, size_t bucket_bytes) {
    const auto pages_end = [&](uint32_t bucket) {
      const size_t bytes = bucket * bucket_bytes / base::huge_page_bytes * base::huge_page_bytes;
      return std::max(bytes, base::huge_page_bytes);
    };
    const size_t begin = pages_end(discarded_buckets_);
    const size_t bytes = pages_end(end) - begin;
    if (bytes > 0) region.discard(begin, bytes);
  };
  discard(hot_region_, sizeof(Bucket));
  discard(cold_region_, Bucket::slots_count * sizeof(ColdSlot));
  discarded_buckets_ = end;
}

Place BucketArray::insert(const KeyHash& hash, uint32_t text) noexcept {
  for (uint32_t index = home(hash.position);; index = after(index)) {
    Bucket& bucket = buckets_[index];
    const uint32_t empty = bucket.match(0);
    if (empty == 0) {
      ++bucket.overflow;
      continue;
    }
    const Place place{&bucket, static_cast<uint32_t>(std::countr_zero(empty))};
    bucket.tags[place.slot] = hash.tag;
    cold(place) = {.text = text, .position = hash.position};
    return place;
  }
}

void BucketArray::erase(Place place) noexcept {
  ASSERT(holds(place) && place.bucket->tags[place.slot] != 0);
  const auto last = static_cast<uint32_t>(index_of(place));
  for (uint32_t index = home(cold(place).position); index != last; index = after(index)) {
    ASSERT(buckets_[index].overflow > 0);
    --buckets_[index].overflow;
  }
  place.bucket->tags[place.slot] = 0;
  place.bucket->words[place.slot] = 0;
  place.bucket->tails[place.slot] = 0;
}

uint32_t BucketArray::check_invariants() const noexcept {
  uint32_t keys_count = 0;
  std::vector<uint32_t> overflows(buckets_count_);
  for (uint32_t last = 0; last < buckets_count_; ++last) {
    Bucket& bucket = buckets_[last];
    for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
      if (bucket.tags[slot] == 0) continue;
      ++keys_count;
      const Place place{&bucket, slot};
      ASSERT((find({bucket.tags[slot], cold(place).position}) == place));
      for (uint32_t index = home(cold(place).position); index != last; index = after(index)) {
        ++overflows[index];
      }
    }
  }
  for (uint32_t index = 0; index < buckets_count_; ++index) {
    ASSERT(buckets_[index].overflow == overflows[index]);
  }
  return keys_count;
}

}  // namespace sluice::shard
