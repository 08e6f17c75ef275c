// The keys' text, apart from the table: read only to show a key.
// Shape:  records of a length (a byte, or three for 255 bytes and more) and the text, named by
//         their offset in units of 2 bytes. A freed record waits in the list of its size for the
//         next key of that size, or is cut for a shorter one when there is no fresh room.
// Errors: store() returns `none` when there is no room; the caller answers table_full.
// Lives:  address space for every key at its longest, four times, at most 8 GiB; committed as it is
//         used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"

namespace sluice::shard {

// The text of all keys at once is at most this long.
constexpr uint64_t key_text_bytes_max(uint32_t keys_max, uint32_t key_bytes_max) noexcept {
  return std::min<uint64_t>(uint64_t{keys_max} * key_bytes_max, uint64_t{8} << 30);
}

class KeyText {
 public:
  using Reference = uint32_t;
  static constexpr Reference none = 0xFFFF'FFFF;
  static constexpr uint64_t unit_bytes = 2;

  KeyText(uint32_t keys_max, uint32_t key_bytes_max);

  Reference store(std::string_view text) noexcept;
  void free(Reference reference) noexcept;
  std::string_view text(Reference reference) const noexcept;
  SLUICE_PREFETCH_FUNCTION void prefetch(Reference reference) const noexcept {
    __builtin_prefetch(region_.data() + reference * unit_bytes);
  }

  uint32_t records_count() const noexcept { return records_count_; }
  uint64_t reserved_bytes() const noexcept { return region_.size(); }

 private:
  std::byte* record(Reference reference) const noexcept;
  Reference take_free(uint32_t units) noexcept;
  Reference cut_free(uint32_t units) noexcept;
  void put_free(Reference reference, uint32_t units) noexcept;
  void begin_anew() noexcept;

  base::MappedRegion region_;
  std::vector<Reference> free_;  // by size in units
  Reference fresh_ = 0;          // never used from here on
  Reference end_;
  uint32_t records_count_ = 0;
};

}  // namespace sluice::shard
