// The entries of a request by the targets that lead to the owners of their keys.
// Flow:   the owner of each entry is written to owners() -> group(), or group_as_one() -> owning(),
//         share_of() and places_of() each of these.
// Shape:  places in the request, ascending for each owner. The lists are made without a branch that
//         depends on an owner: with keys of two shards the processor would guess every other wrong.
// Lives:  one thread only; of one request at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "route/node_map.hpp"

namespace sluice::route {

class OwnerGroups {
 public:
  // What one owner is to decide.
  struct Share {
    uint32_t entries_count = 0;
    uint32_t first = 0;     // of the list of its own, or of that of all others
    size_t text_bytes = 0;  // of its keys, at most
  };

  OwnerGroups(uint32_t targets_count, TargetId here);

  // As many as a request may have entries.
  std::span<TargetId> owners() noexcept { return owners_; }
  TargetId owner_of(uint32_t place) const noexcept { return owners_[place]; }

  // Of the first `entries_count` of owners().
  void group(uint32_t entries_count) noexcept;
  // All entries have this owner; places_of() it is not made.
  void group_as_one(TargetId owner, uint32_t entries_count) noexcept;

  // Those that have a share.
  std::span<const TargetId> owning() const noexcept { return owning_; }
  bool is_one() const noexcept { return owning_.size() == 1; }
  bool is_all_here() const noexcept { return is_one() && owning_[0] == here_; }
  Share& share_of(TargetId owner) noexcept { return shares_[owner]; }
  const Share& share_of(TargetId owner) const noexcept { return shares_[owner]; }
  std::span<const uint16_t> places_of(TargetId owner) const noexcept {
    const Share& share = shares_[owner];
    const std::vector<uint16_t>& places = owner == here_ ? own_places_ : other_places_;
    return std::span(places).subspan(share.first, share.entries_count);
  }
  // Of all owners but this shard, owner by owner.
  std::span<const uint16_t> other_places() const noexcept {
    return std::span(other_places_).first(others_count_);
  }

 private:
  void forget() noexcept;
  void add_share(TargetId owner, uint32_t entries_count) noexcept;
  bool others_are_one() const noexcept;
  void sort_others() noexcept;

  const TargetId here_;
  std::vector<TargetId> owners_;
  std::vector<Share> shares_;     // by target
  std::vector<TargetId> owning_;  // those that have a share
  std::vector<uint16_t> own_places_, other_places_, sorted_places_;
  uint32_t others_count_ = 0;
};

}  // namespace sluice::route
