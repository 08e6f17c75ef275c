// A list that is appended to, read in order and emptied at once, in memory that is committed as it
// is used.
// Errors: the constructor throws as MappedRegion does.
// Bounds: values_max; the owner never appends more.
// Lives:  one thread only.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/assert.hpp"
#include "base/mapped_array.hpp"

namespace sluice::quota {

template <typename T>
class AppendList {
 public:
  AppendList(size_t values_max, std::string_view purpose) : values_(values_max, purpose) {}

  void append(const T& value) noexcept {
    ASSERT(size_ < values_.size());
    values_[size_++] = value;
  }
  const T& operator[](size_t at) const noexcept { return values_[at]; }
  size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  uint64_t reserved_bytes() const noexcept { return values_.reserved_bytes(); }

 private:
  base::MappedArray<T> values_;
  size_t size_ = 0;
};

}  // namespace sluice::quota
