#include "route/owner_groups.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::route {

OwnerGroups::OwnerGroups(uint32_t targets_count, TargetId here)
    : here_(here),
      owners_(limits::frame_entries_max),
      shares_(targets_count),
      own_places_(limits::frame_entries_max),
      other_places_(limits::frame_entries_max),
      sorted_places_(limits::frame_entries_max) {
  static_assert(limits::frame_entries_max <= 65'536, "a place has two bytes");
  owning_.reserve(targets_count);
}

void OwnerGroups::forget() noexcept {
  for (const TargetId owner : owning_) shares_[owner] = {};
  owning_.clear();
  others_count_ = 0;
}

void OwnerGroups::add_share(TargetId owner, uint32_t entries_count) noexcept {
  shares_[owner].entries_count = entries_count;
  owning_.push_back(owner);
}

void OwnerGroups::group_as_one(TargetId owner, uint32_t entries_count) noexcept {
  forget();
  add_share(owner, entries_count);
}

void OwnerGroups::group(uint32_t entries_count) noexcept {
  ASSERT(entries_count <= owners_.size());
  forget();
  uint16_t* const own_places = own_places_.data();
  uint16_t* const other_places = other_places_.data();
  const TargetId* const owners = owners_.data();
  uint32_t own = 0;
  for (uint32_t place = 0; place < entries_count; ++place) {
    // Both lists take it; in the wrong one the next place takes its room.
    own_places[own] = static_cast<uint16_t>(place);
    other_places[place - own] = static_cast<uint16_t>(place);
    own += owners[place] == here_ ? 1 : 0;
  }
  others_count_ = entries_count - own;
  if (own > 0) add_share(here_, own);
  if (others_count_ == 0) return;
  if (others_are_one()) return add_share(owners[other_places[0]], others_count_);
  sort_others();
}

bool OwnerGroups::others_are_one() const noexcept {
  if (shares_.size() == 2) return true;
  uint32_t differing = 0;
  for (const uint16_t place : other_places()) {
    differing |= owners_[place] ^ owners_[other_places_[0]];
  }
  return differing == 0;
}

// A counting sort, which keeps the order of each owner's places.
void OwnerGroups::sort_others() noexcept {
  const size_t owning_before = owning_.size();
  for (const uint16_t place : other_places()) {
    Share& share = shares_[owners_[place]];
    if (share.entries_count++ == 0) owning_.push_back(owners_[place]);
  }
  uint32_t first = 0;
  for (const TargetId owner : owning().subspan(owning_before)) {
    Share& share = shares_[owner];
    share.first = first;
    first += std::exchange(share.entries_count, 0);
  }
  for (const uint16_t place : other_places()) {
    Share& share = shares_[owners_[place]];
    sorted_places_[share.first + share.entries_count++] = place;
  }
  other_places_.swap(sorted_places_);
}

}  // namespace sluice::route
