#include "peer/address_book.hpp"

#include <algorithm>

namespace sluice::peer {

std::optional<io::PeerAddress> AddressBook::address(uint32_t node) const {
  const std::lock_guard lock(mutex_);
  const Node& of = nodes_[node];
  if (of.addresses.empty()) return std::nullopt;
  return of.addresses[of.used];
}

uint32_t AddressBook::addresses_count(uint32_t node) const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(nodes_[node].addresses.size());
}

void AddressBook::set(uint32_t node, std::span<const io::PeerAddress> addresses) {
  const auto known = addresses.first(std::min(addresses.size(), addresses_max));
  const std::lock_guard lock(mutex_);
  Node& of = nodes_[node];
  size_t used = 0;
  if (!of.addresses.empty()) {
    const auto same = std::ranges::find(known, of.addresses[of.used]);
    if (same != known.end()) used = static_cast<size_t>(same - known.begin());
  }
  of.addresses.assign(known.begin(), known.end());
  of.used = used;
}

void AddressBook::note_failed(uint32_t node, const io::PeerAddress& address) {
  const std::lock_guard lock(mutex_);
  Node& of = nodes_[node];
  if (of.addresses.empty() || of.addresses[of.used] != address) return;
  of.used = (of.used + 1) % of.addresses.size();
}

}  // namespace sluice::peer
