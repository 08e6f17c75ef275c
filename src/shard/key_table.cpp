#include "shard/key_table.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::shard {
namespace {

constexpr uint32_t buckets_min = 1'024;
constexpr uint32_t insert_moves_buckets = 3;  // the old array is never filled above 0.96
constexpr uint32_t slice_moves_buckets = 64;

// It doubles at a load of 0.85: searches grow long above it. In the largest size, which cannot
// double, keys_max keys are a load of 0.93: more memory would stay unused.
constexpr uint32_t keys_for(uint32_t buckets_count) noexcept {
  return static_cast<uint32_t>(uint64_t{buckets_count} * Bucket::slots_count * 17 / 20);
}
constexpr uint32_t buckets_for(uint32_t keys_max) noexcept {
  constexpr uint64_t unit = Bucket::slots_count * 93;
  return static_cast<uint32_t>((uint64_t{keys_max} * 100 + unit - 1) / unit);
}

constexpr uint32_t halved(uint32_t buckets_max, uint32_t halvings) noexcept {
  return static_cast<uint32_t>((uint64_t{buckets_max} + (1ULL << halvings) - 1) >> halvings);
}

}  // namespace

KeyTable::KeyTable(uint32_t keys_max, uint32_t key_bytes_max)
    : keys_max_(keys_max),
      buckets_max_(buckets_for(keys_max)),
      arrays_{BucketArray(buckets_max_), BucketArray(halved(buckets_max_, 1))},
      current_(&arrays_[0]),
      previous_(&arrays_[1]),
      text_(keys_max, key_bytes_max) {
  ASSERT(keys_max > 0);
  ASSERT(size_t{buckets_max_} * Bucket::slots_count > keys_max);
  while (halved(buckets_max_, halvings_ + 1) >= buckets_min) ++halvings_;
  // The largest size has to come in the array that has room for it.
  if (halvings_ % 2 == 1) std::swap(current_, previous_);
  current_->open(halved(buckets_max_, halvings_));
}

Place KeyTable::insert(const KeyHash& hash, std::string_view text) noexcept {
  if (full()) return {};
  const KeyText::Reference reference = text_.store(text);
  if (reference == KeyText::none) return {};
  if (growing_) {
    move_buckets(insert_moves_buckets);
  } else if (keys_count_ >= keys_for(current_->buckets_count()) && halvings_ > 0) {
    start_growing();
  }
  ++keys_count_;
  ++version_;
  return home_array(hash).insert(hash, reference);
}

// Of a home that has moved, keys may be left that lie behind it.
Place KeyTable::find_growing(const KeyHash& hash) const noexcept {
  if (hash.position >= moved_positions_) return previous_->find(hash);
  const Place place = current_->find(hash);
  if (place || previous_->home(hash.position) < discarded_buckets_) return place;
  return previous_->find(hash);
}

void KeyTable::erase(Place place) noexcept {
  BucketArray& array = current_->holds(place) ? *current_ : *previous_;
  text_.free(array.cold(place).text);
  array.erase(place);
  --keys_count_;
  ++version_;
}

KeyHash KeyTable::hash(Place place) const noexcept {
  return {.tag = place.bucket->tags[place.slot], .position = array_of(place).cold(place).position};
}

std::string_view KeyTable::text(Place place) const noexcept {
  return text_.text(array_of(place).cold(place).text);
}

void KeyTable::start_growing() noexcept {
  std::swap(current_, previous_);
  --halvings_;
  current_->open(halved(buckets_max_, halvings_));
  moved_buckets_ = 0;
  discarded_buckets_ = 0;
  moved_positions_ = 0;
  growing_ = true;
}

void KeyTable::grow_slice() noexcept {
  if (growing_) move_buckets(slice_moves_buckets);
}

void KeyTable::move_buckets(uint32_t buckets_count) noexcept {
  ++version_;
  const uint32_t previous_count = previous_->buckets_count();
  const Bucket& last = previous_->bucket(previous_count - 1);
  for (uint32_t left = buckets_count; left > 0; --left) {
    if (moved_buckets_ >= previous_count && last.overflow == 0) {
      previous_->close();
      growing_ = false;
      return;
    }
    move_bucket(moved_buckets_++);
  }
  moved_positions_ = previous_->first_position(std::min(moved_buckets_, previous_count));
  discard_moved();
}

// Keys around the end stay until their homes, the last ones, have moved: then come their buckets,
// the first ones, once more.
void KeyTable::move_bucket(uint32_t step) noexcept {
  const bool is_around = step >= previous_->buckets_count();
  const uint32_t index = is_around ? step - previous_->buckets_count() : step;
  Bucket& from = previous_->bucket(index);
  for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
    if (from.tags[slot] == 0) continue;
    const Place old{&from, slot};
    const ColdSlot cold = previous_->cold(old);
    if (!is_around && previous_->home(cold.position) > index) continue;
    const Place moved =
        current_->insert({.tag = from.tags[slot], .position = cold.position}, cold.text);
    moved.bucket->words[moved.slot] = from.words[slot];
    moved.bucket->tails[moved.slot] = from.tails[slot];
    previous_->erase(old);
  }
}

// Frees the old array a large page after the other: all at once would take long.
void KeyTable::discard_moved() noexcept {
  const uint32_t end = discarded_buckets_ + BucketArray::buckets_in_page;
  if (moved_buckets_ < end || end > previous_->buckets_count()) return;
  if (previous_->bucket(end - 1).overflow > 0) return;  // keys of these homes lie behind
  previous_->discard_before(end);
  discarded_buckets_ = end;
}

uint64_t KeyTable::reserved_bytes() const noexcept {
  return arrays_[0].reserved_bytes() + arrays_[1].reserved_bytes() + text_.reserved_bytes();
}

void KeyTable::check_invariants() const noexcept {
  const uint32_t previous_keys = previous_->check_invariants();
  ASSERT(growing_ || previous_keys == 0);
  ASSERT(current_->check_invariants() + previous_keys == keys_count_);
  ASSERT(keys_count_ <= keys_max_ && text_.records_count() == keys_count_);
  // The last doubling ends long before the table is full: what reclaims keys then reads one
  // array only.
  ASSERT(!(full() && growing_));
}

}  // namespace sluice::shard
