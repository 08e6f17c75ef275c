// Splits a batch into frames: first its entries by lane, then each lane's part. Part of Client.
// Lives:  a Share's spans as long as the batch and the Share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluicegate {

constexpr size_t slice_keys_max = 1'024;
constexpr size_t slice_handles_max = 4'096;
constexpr size_t slice_bytes_max = 64 * 1024;

// A span of a batch that one frame takes.
struct Cut {
  uint32_t first;
  uint32_t count;
  size_t key_bytes;
};

// Cuts entries into frames, none of them above the bounds.
template <typename Entry, typename TextBytes>
std::vector<Cut> cut_entries(std::span<const Entry> entries, size_t entry_bytes,
                             TextBytes text_bytes_of) {
  std::vector<Cut> cuts;
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const size_t text_bytes = text_bytes_of(entries[i]);
    const bool is_full =
        cuts.empty() || cuts.back().count == slice_keys_max ||
        cuts.back().key_bytes + text_bytes + cuts.back().count * entry_bytes > slice_bytes_max;
    if (is_full) cuts.push_back({i, 0, 0});
    ++cuts.back().count;
    cuts.back().key_bytes += text_bytes;
  }
  return cuts;
}

inline std::vector<Cut> cut_keys(std::span<const std::string_view> keys, size_t entry_bytes) {
  return cut_entries(keys, entry_bytes, [](std::string_view key) { return key.size(); });
}

inline std::vector<Cut> cut_handles(size_t count) {
  std::vector<Cut> cuts;
  for (size_t first = 0; first < count; first += slice_handles_max) {
    const auto size = std::min(slice_handles_max, count - first);
    cuts.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(size), 0});
  }
  return cuts;
}

// A lane's part of a batch, and the places of its entries in the batch; no places: the whole batch.
template <typename Entry>
struct Share {
  std::span<const Entry> entries;
  std::span<const uint32_t> places;
  std::vector<Entry> own_entries;
  std::vector<uint32_t> own_places;

  std::span<const uint32_t> places_of(const Cut& cut) const {
    return places.empty() ? places : places.subspan(cut.first, cut.count);
  }
};

// A batch's entries by the lane of each, in their order.
template <typename Entry, typename LaneOf>
std::vector<Share<Entry>> share_out(std::span<const Entry> entries, uint32_t lanes_count,
                                    LaneOf lane_of) {
  std::vector<Share<Entry>> shares(lanes_count);
  if (lanes_count == 1) {
    shares[0].entries = entries;
    return shares;
  }
  for (uint32_t i = 0; i < entries.size(); ++i) {
    // A lane may have been added since they were counted; the last one's server forwards.
    Share<Entry>& share = shares[std::min(lane_of(entries[i]), lanes_count - 1)];
    share.own_entries.push_back(entries[i]);
    share.own_places.push_back(i);
  }
  for (Share<Entry>& share : shares) {
    share.entries = share.own_entries;
    share.places = share.own_places;
  }
  return shares;
}

}  // namespace sluicegate
