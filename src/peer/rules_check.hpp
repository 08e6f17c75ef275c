// Compares the rules of other nodes with this node's, by one number: the owner's rules hold for a
// key, so a node with others would limit otherwise what it owns. --peer-timeout-millis is one of
// them, because a node keeps parts of other nodes' calls by its own, and so is the list, by which a
// key has an owner.
// Flow:   on_tick() -> GET /healthz of one node after the other -> its number -> differs(), a WARN.
// Shape:  a difference counts when it is there in two checks of a node: files are replaced on all
//         nodes one by one. A gocc gives no number.
// Bounds: one check at a time; each node is checked every check_ms, or less often if they are many.
// Lives:  one per process, on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "peer/address_book.hpp"
#include "peer/context.hpp"
#include "peer/node_fetch.hpp"

namespace sluice::peer {

class RulesCheck {
 public:
  static constexpr int64_t check_ms = 3'000;

  RulesCheck(Context& context, AddressBook& addresses);

  // From now on; 0: unknown, nothing is checked.
  void set_own(uint64_t digest) noexcept { own_ = digest; }
  bool differs(uint32_t node) const noexcept { return nodes_[node].differences > 1; }

  void on_tick() noexcept;
  // After a connection has gone.
  void go_on() noexcept;
  void close() noexcept;
  bool is_closed() const noexcept { return fetch_ == nullptr; }

 private:
  static constexpr size_t body_bytes_max = 1'024;  // of an answer

  struct Node {
    int64_t next_ms = 0;
    uint32_t differences = 0;  // in a row
    uint64_t warned_of = 0;    // the other node's number
  };

  void check_next() noexcept;
  void check(uint32_t node) noexcept;
  void take_answer() noexcept;
  void note(uint32_t node, uint64_t digest) noexcept;

  Context& context_;
  AddressBook& addresses_;
  uint64_t own_ = 0;
  std::vector<Node> nodes_;
  uint32_t next_node_ = 0;  // to be checked, if it is due
  uint32_t checked_ = 0;
  size_t room_ = 0;  // of the answer
  std::unique_ptr<NodeFetch> fetch_;
  bool is_taken_ = false;  // its answer
  bool is_closing_ = false;
};

}  // namespace sluice::peer
