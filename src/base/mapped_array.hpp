// A fixed number of plain values in memory that is committed as it is touched; they start as zero.
// Errors: the constructor throws std::system_error that names the size and the purpose.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"

namespace sluice::base {

template <typename T>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  MappedArray(size_t count, std::string_view purpose)
      : region_(count * sizeof(T), purpose), count_(count) {}

  size_t size() const noexcept { return count_; }
  T* data() const noexcept { return reinterpret_cast<T*>(region_.data()); }
  T& operator[](size_t index) const noexcept {
    DEBUG_ASSERT(index < count_);
    return data()[index];
  }
  std::span<T> slice(size_t first, size_t count) const noexcept {
    DEBUG_ASSERT(first + count <= count_);
    return {data() + first, count};
  }
  size_t reserved_bytes() const noexcept { return region_.size(); }
  // Asks for large pages, for what is read at random.
  void advise_huge() noexcept { region_.advise_huge(); }

 private:
  MappedRegion region_;
  size_t count_;
};

}  // namespace sluice::base
