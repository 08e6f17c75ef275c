// Which node owns a key or a subject, and whether it is this one.
// Shape:  nodes are numbered by their places in --instance-urls; a server without a list is node 0
//         of one. The shard in the node follows from the routing hash (proto/key_hash.hpp).
// Source: proto/node_hash.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/assert.hpp"
#include "proto/node_hash.hpp"

namespace sluice::route {

class Ownership {
 public:
  constexpr Ownership() noexcept = default;
  constexpr Ownership(uint16_t nodes_count, uint16_t own_node) noexcept
      : nodes_count_(nodes_count), own_node_(own_node) {
    ASSERT(own_node < nodes_count);
  }

  constexpr bool has_peers() const noexcept { return nodes_count_ > 1; }
  constexpr uint16_t nodes_count() const noexcept { return nodes_count_; }
  constexpr uint16_t own_node() const noexcept { return own_node_; }

  constexpr uint16_t node_of_key(std::string_view key) const noexcept {
    if (!has_peers()) return own_node_;
    return static_cast<uint16_t>(proto::key_node(key, nodes_count_));
  }
  constexpr uint16_t node_of_subject(std::string_view subject) const noexcept {
    if (!has_peers()) return own_node_;
    return static_cast<uint16_t>(proto::subject_node(subject, nodes_count_));
  }

 private:
  uint16_t nodes_count_ = 1;
  uint16_t own_node_ = 0;
};

}  // namespace sluice::route
