// The bindings that workers of other nodes use for their clients' connection-bound reservations.
// Flow:   a lane begins: join() -> use(), with each Reserve that binds -> forget(), when the client
//         has left, at each worker: that comes over one lane -> the lane ends: leave() -> if there
//         is no other within 30 s: end_due().
// Shape:  a worker of another node is its `sender`; all of its lanes to this shard share its
//         bindings.
// Lives:  one per worker, one thread only. Allocates, as quota calls may.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::session {

class NodeBindings {
 public:
  // How long the reservations of a node that cannot be reached live on.
  static constexpr int64_t kept_ms = 30'000;

  void join(uint64_t sender) {
    Sender& joined = at(sender);
    ++joined.lanes;
    joined.ends_ms = base::never_ms;
  }
  void leave(uint64_t sender, int64_t now_ms) {
    Sender& left = at(sender);
    ASSERT(left.lanes > 0);
    if (--left.lanes == 0) left.ends_ms = now_ms + kept_ms;
  }
  void use(uint64_t sender, uint64_t binding) { at(sender).bindings.insert(binding); }
  // No other sender has this binding.
  void forget(uint64_t binding) {
    for (Sender& sender : senders_) sender.bindings.erase(binding);
  }

  int64_t due_ms() const noexcept {
    int64_t due = base::never_ms;
    for (const Sender& sender : senders_) due = std::min(due, sender.ends_ms);
    return due;
  }
  // Calls `end(binding)` for each of those that have been away for too long.
  template <typename End>
  void end_due(int64_t now_ms, End end) {
    std::erase_if(senders_, [&](const Sender& sender) {
      if (sender.ends_ms > now_ms) return false;
      for (const uint64_t binding : sender.bindings) end(binding);
      return true;
    });
  }

 private:
  struct Sender {
    uint64_t number;
    uint32_t lanes = 0;
    int64_t ends_ms = base::never_ms;  // while it has no lane
    std::set<uint64_t> bindings;
  };

  Sender& at(uint64_t number) {
    const auto found = std::ranges::find(senders_, number, &Sender::number);
    if (found != senders_.end()) return *found;
    senders_.push_back({.number = number, .bindings = {}});
    return senders_.back();
  }

  std::vector<Sender> senders_;  // as many as workers of other nodes
};

}  // namespace sluice::session
