// The addresses of the nodes of the list, as the names were last resolved: all that a name has, for
// a node may listen on one of them only ("localhost" is ::1 and 127.0.0.1).
// Flow:   AddressWatch -> set() -> address(), where to connect -> note_failed() -> the next one.
// Shape:  a thread that may wait for names writes; workers read when they connect, and say which
//         address failed: all workers go on to the next one then.
// Bounds: addresses_max of a node, those that the resolver names first.
// Lives:  shared by all threads; outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "io/peer_address.hpp"

namespace sluice::peer {

class AddressBook {
 public:
  static constexpr size_t addresses_max = 16;

  explicit AddressBook(uint32_t nodes_count) : nodes_(nodes_count) {}

  // Of the node's REST port; nothing: its name has not been resolved yet.
  std::optional<io::PeerAddress> address(uint32_t node) const;
  uint32_t addresses_count(uint32_t node) const;

  // In place of those that were known. The one in use stays so, if it is among them.
  void set(uint32_t node, std::span<const io::PeerAddress> addresses);
  void set(uint32_t node, const io::PeerAddress& address) { set(node, std::span(&address, 1)); }

  // The node does not answer there. The next one is in use from now on, unless another worker has
  // already gone on from this one.
  void note_failed(uint32_t node, const io::PeerAddress& address);

 private:
  struct Node {
    std::vector<io::PeerAddress> addresses;  // in the resolver's order
    size_t used = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Node> nodes_;
};

}  // namespace sluice::peer
