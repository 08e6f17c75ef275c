// Counts entries and quota calls that another node has forwarded to this one although, by this
// node's list, yet another node owns their keys or subjects: the two lists differ, or a gocc has
// read a key with escapes.
// Shape:  of a frame the first key is checked, and all of them when it is misrouted: a frame of a
//         node with the same list costs one hash.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>
#include <string_view>

#include "route/key_column.hpp"
#include "route/ownership.hpp"

namespace sluice::route {

class MisroutedCount {
 public:
  explicit MisroutedCount(const Ownership& ownership) noexcept : ownership_(ownership) {}

  uint64_t entries() const noexcept { return entries_; }

  void count(std::string_view key) noexcept {
    if (is_misrouted(key)) ++entries_;
  }
  // Of a quota call, its first one.
  void count_subject(std::string_view name) noexcept {
    if (ownership_.has_peers() && ownership_.node_of_subject(name) != ownership_.own_node()) {
      ++entries_;
    }
  }
  void count(const KeyColumn& keys) noexcept {
    if (keys.sizes.empty() || !is_misrouted(keys.text.substr(0, keys.sizes[0]))) return;
    size_t begin = 0;
    for (const uint16_t size : keys.sizes) {
      count(keys.text.substr(begin, size));
      begin += size;
    }
  }

 private:
  bool is_misrouted(std::string_view key) const noexcept {
    return ownership_.has_peers() && ownership_.node_of_key(key) != ownership_.own_node();
  }

  const Ownership ownership_;
  uint64_t entries_ = 0;
};

}  // namespace sluice::route
