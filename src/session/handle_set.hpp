// The handles that one connection holds: a bit each.
// Flow:   filled by Intern, emptied by Forget; when its connection has ended the worker drops the
//         remaining references, some in each turn.
// Shape:  address space for a bit of every handle of the shard; pages are committed when used.
// Errors: the constructor throws std::system_error when there is no address space.
// Lives:  from the connection's first Intern until all references are dropped; one thread only.
#pragma once

#include <algorithm>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>

#include "api/entry.hpp"
#include "base/mapped_array.hpp"

namespace sluice::session {

class HandleSet : public boost::intrusive::list_base_hook<> {
 public:
  explicit HandleSet(uint32_t handles_max)
      : words_((size_t{handles_max} + 63) / 64, "handles of a connection (--max-handles)"),
        handles_max_(handles_max) {}

  bool holds(api::Handle handle) const noexcept {
    return handle < handles_max_ && (words_[handle / 64] >> handle % 64 & 1) != 0;
  }
  // Without an early exit, so that reading a bit depends on no earlier one.
  bool holds_all(std::span<const api::Handle> handles) const noexcept {
    api::Handle beyond = 0;
    for (const api::Handle handle : handles) beyond |= handle >= handles_max_ ? 1U : 0U;
    if (beyond != 0) return false;
    uint64_t all = 1;
    for (const api::Handle handle : handles) all &= words_[handle / 64] >> handle % 64;
    return all != 0;
  }
  // False: the connection held it already.
  bool add(api::Handle handle) noexcept {
    if (holds(handle)) return false;
    words_[handle / 64] |= bit(handle);
    first_word_ = std::min(first_word_, size_t{handle / 64});
    ++count_;
    return true;
  }
  // False: the connection did not hold it.
  bool remove(api::Handle handle) noexcept {
    if (!holds(handle)) return false;
    words_[handle / 64] &= ~bit(handle);
    --count_;
    return true;
  }
  uint32_t count() const noexcept { return count_; }

  // Takes handles out, lowest first, and calls `drop_reference` for each, until `work_max` units of
  // work are done: a handle is one unit, and so are 64 words without any. Returns the work.
  template <typename DropReference>
  uint32_t take_out(uint32_t work_max, DropReference drop_reference) noexcept {
    uint32_t work = 0;
    while (count_ > 0 && work < work_max) {
      const uint64_t word = words_[first_word_];
      if (word == 0) {
        if (++first_word_ % 64 == 0) ++work;
        continue;
      }
      ++work;
      const auto handle =
          static_cast<api::Handle>(first_word_ * 64 + static_cast<size_t>(std::countr_zero(word)));
      remove(handle);
      drop_reference(handle);
    }
    return work;
  }

 private:
  static uint64_t bit(api::Handle handle) noexcept { return uint64_t{1} << handle % 64; }

  base::MappedArray<uint64_t> words_;
  uint32_t handles_max_;
  uint32_t count_ = 0;
  size_t first_word_ = SIZE_MAX;  // the words before it hold no handle
};

using HandleSets = boost::intrusive::list<HandleSet>;

}  // namespace sluice::session
