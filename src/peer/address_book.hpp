// The addresses of the nodes of the list, as the names were last resolved.
// Shape:  a thread that may wait for names writes; workers read when they connect.
// Lives:  shared by all threads; outlives them.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "io/peer_address.hpp"

namespace sluice::peer {

class AddressBook {
 public:
  explicit AddressBook(uint32_t nodes_count) : addresses_(nodes_count) {}

  // Of the node's REST port; nothing: its name has not been resolved yet.
  std::optional<io::PeerAddress> address(uint32_t node) const {
    const std::lock_guard lock(mutex_);
    return addresses_[node];
  }
  void set(uint32_t node, const io::PeerAddress& address) {
    const std::lock_guard lock(mutex_);
    addresses_[node] = address;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::optional<io::PeerAddress>> addresses_;  // by node
};

}  // namespace sluice::peer
