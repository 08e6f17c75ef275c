// Address space taken at start; its pages are committed as they are touched, never by malloc.
// Units:  bytes.
// Errors: the constructor throws std::system_error that names the size and the purpose.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::base {

inline constexpr size_t huge_page_bytes = 2 * 1024 * 1024;

class MappedRegion {
 public:
  MappedRegion() = default;
  // `purpose` is named in the error: "key table (--max-keys)".
  MappedRegion(size_t bytes, std::string_view purpose);
  ~MappedRegion();
  MappedRegion(MappedRegion&& other) noexcept;
  MappedRegion& operator=(MappedRegion&& other) noexcept;

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

  // Large pages where the kernel can: fewer TLB misses in a table that is read at random.
  void advise_huge() noexcept;

  // Frees the pages of a range; they read as zero afterwards. Rounded inward to whole pages.
  void discard(size_t offset, size_t bytes) noexcept;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sluice::base
