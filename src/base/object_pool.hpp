// A bounded pool of objects, named by index. Never allocates after construction.
// Shape:  address space for `capacity` objects; pages are committed as indexes come into use. The
//         object freed last is the first to be taken again, while it is still in the cache.
// Errors: take() gives `none` when all are in use; the caller has a documented answer for it.
// Lives:  an object is built by take() and destroyed by free(); references stay valid between.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"

namespace sluice::base {

template <typename T>
class ObjectPool {
 public:
  using Index = uint32_t;
  static constexpr Index none = 0xFFFF'FFFF;

  ObjectPool(uint32_t capacity, std::string_view purpose)
      : region_(size_t{capacity} * sizeof(Slot), purpose), capacity_(capacity) {
    static_assert(alignof(Slot) <= 4096);
  }

  ~ObjectPool() {
    for (Index index = 0; index < fresh_; ++index) {
      if (slot(index).next_free == in_use) slot(index).object().~T();
    }
  }
  ObjectPool(const ObjectPool&) = delete;
  ObjectPool& operator=(const ObjectPool&) = delete;

  template <typename... Args>
  Index take(Args&&... args) {
    Index index = free_;
    if (index != none) {
      free_ = slot(index).next_free;
    } else if (fresh_ < capacity_) {
      index = fresh_++;
    } else {
      return none;
    }
    new (slot(index).storage) T(std::forward<Args>(args)...);
    slot(index).next_free = in_use;
    ++used_;
    return index;
  }

  void free(Index index) noexcept {
    ASSERT(holds(index));
    slot(index).object().~T();
    slot(index).next_free = free_;
    free_ = index;
    --used_;
  }

  T& operator[](Index index) noexcept {
    DEBUG_ASSERT(holds(index));
    return slot(index).object();
  }
  const T& operator[](Index index) const noexcept {
    DEBUG_ASSERT(holds(index));
    return slot(index).object();
  }

  bool holds(Index index) const noexcept {
    return index < fresh_ && slot(index).next_free == in_use;
  }
  // Fetch ahead an object, and the place that the next take() will most probably give.
  SLUICE_PREFETCH_FUNCTION void prefetch(Index index) const noexcept {
    const auto* bytes = reinterpret_cast<const std::byte*>(&slot(index));
    for (size_t at = 0; at < sizeof(Slot); at += 64) __builtin_prefetch(bytes + at, 1);
  }
  SLUICE_PREFETCH_FUNCTION void prefetch_next() const noexcept {
    if (free_ != none) prefetch(free_);
  }

  // For objects that are read at random.
  void advise_huge() noexcept { region_.advise_huge(); }

  uint32_t used() const noexcept { return used_; }
  uint32_t capacity() const noexcept { return capacity_; }
  uint64_t reserved_bytes() const noexcept { return region_.size(); }

  // Every index that may be in use is below this.
  Index index_end() const noexcept { return fresh_; }

 private:
  static constexpr Index in_use = 0xFFFF'FFFE;

  struct Slot {
    alignas(T) std::byte storage[sizeof(T)];
    Index next_free;
    T& object() noexcept { return *std::launder(reinterpret_cast<T*>(storage)); }
    const T& object() const noexcept { return *std::launder(reinterpret_cast<const T*>(storage)); }
  };

  Slot& slot(Index index) const noexcept { return reinterpret_cast<Slot*>(region_.data())[index]; }

  MappedRegion region_;
  uint32_t capacity_;
  Index free_ = none;
  Index fresh_ = 0;  // never used from here on
  uint32_t used_ = 0;
};

}  // namespace sluice::base
