// Every live key of one shard: finds it, makes room for it, forgets it.
// Shape:  bucket arrays of keys_max / 0.93 slots, halved as often as that leaves 1,024 buckets: it
//         starts with the smallest and doubles. While it grows, keys move over from the old array,
//         a few buckets at each insert and at each grow_slice(), so that no call takes long. They
//         move in the order of their homes, and a key whose home has not moved is in the old array
//         only, also a new one: so the new array is touched from its beginning on, a large page
//         after the other, and no turn waits for many of them.
// Errors: insert() returns no place when keys_max keys are there, or their text has no room left.
// Lives:  nothing is allocated after construction; a place is valid while version() stays the same.
// Source: Swiss tables and unordered_dense for one cache line a lookup; overflow counts as in F14.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/prefetch.hpp"
#include "shard/bucket_array.hpp"
#include "shard/key_text.hpp"

namespace sluice::shard {

class KeyTable {
 public:
  KeyTable(uint32_t keys_max, uint32_t key_bytes_max);
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  SLUICE_PREFETCH_FUNCTION void prefetch(const KeyHash& hash) const noexcept {
    home_array(hash).prefetch(hash.position);
  }

  // The second step of three for many keys at once: the slot is Bucket::slots_count when the key is
  // not at its home. Then prefetch_next(), and later find(). Not while the table grows.
  [[gnu::always_inline]] Place find_at_home(const KeyHash& hash) const noexcept {
    return current_->find_at_home(hash);
  }
  SLUICE_PREFETCH_FUNCTION void prefetch_next(const KeyHash& hash) const noexcept {
    home_array(hash).prefetch_next(hash.position);
  }

  Place find(const KeyHash& hash) const noexcept {
    if (growing()) [[unlikely]]
      return find_growing(hash);
    return current_->find(hash);
  }

  // The key is absent. The caller writes its window.
  Place insert(const KeyHash& hash, std::string_view text) noexcept;
  void erase(Place place) noexcept;

  KeyHash hash(Place place) const noexcept;
  std::string_view text(Place place) const noexcept;
  // Of a key's text, as long as the key is in the table, wherever it moves.
  KeyText::Reference text_reference(Place place) const noexcept {
    return array_of(place).cold(place).text;
  }
  const KeyText& texts() const noexcept { return text_; }

  // Changes with every insert, erase and move of a key.
  uint32_t version() const noexcept { return version_; }

  bool full() const noexcept { return keys_count_ == keys_max_; }
  uint32_t keys_count() const noexcept { return keys_count_; }

  // While it grows, some keys are still in previous() and not in current().
  bool growing() const noexcept { return growing_; }
  const BucketArray& current() const noexcept { return *current_; }
  const BucketArray& previous() const noexcept { return *previous_; }

  // Moves a slice of the keys that still have to move.
  void grow_slice() noexcept;

  uint64_t reserved_bytes() const noexcept;
  void check_invariants() const noexcept;

 private:
  const BucketArray& array_of(Place place) const noexcept {
    return current_->holds(place) ? *current_ : *previous_;
  }
  [[gnu::always_inline]] BucketArray& home_array(const KeyHash& hash) const noexcept {
    if (growing()) [[unlikely]]
      return hash.position < moved_positions_ ? *current_ : *previous_;
    return *current_;
  }
  Place find_growing(const KeyHash& hash) const noexcept;
  void start_growing() noexcept;
  void move_buckets(uint32_t buckets_count) noexcept;
  void move_bucket(uint32_t step) noexcept;
  void discard_moved() noexcept;

  uint32_t keys_max_;
  uint32_t buckets_max_;
  uint32_t keys_count_ = 0;
  uint32_t version_ = 0;
  uint32_t halvings_ = 0;           // of buckets_max_: the current size
  uint32_t moved_buckets_ = 0;      // beyond the last one: those around the end, once more
  uint32_t discarded_buckets_ = 0;  // no key of these homes is left in previous()
  uint64_t moved_positions_ = 0;    // the homes of the positions below have moved
  bool growing_ = false;
  std::array<BucketArray, 2> arrays_;
  BucketArray* current_;
  BucketArray* previous_;
  KeyText text_;
};

}  // namespace sluice::shard
