#include "peer/topology_book.hpp"

#include <string_view>

namespace sluice::peer {
namespace {

// FNV-1a of 64 bits over all URLs, each with a line end: that the lists of two nodes differ shows,
// whoever made them.
uint64_t digest_of(const std::vector<Instance>& instances) noexcept {
  uint64_t digest = 14'695'981'039'346'656'037U;
  const auto add = [&](std::string_view text) {
    for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 1'099'511'628'211U;
  };
  for (const Instance& instance : instances) {
    add(instance.url);
    add("\n");
  }
  return digest;
}

}  // namespace

TopologyBook::TopologyBook(const FleetOptions& options, uint16_t rest_port,
                           const wire::NodeState& own) {
  if (!options.has_peers()) {
    topology_.nodes.push_back({.host = "", .rest_port = rest_port, .state = own});
    return;
  }
  topology_.list_digest = digest_of(options.instances);
  topology_.own_node = options.own_node;
  for (const Instance& instance : options.instances) {
    topology_.nodes.push_back({.host = instance.host, .rest_port = instance.port, .state = {}});
  }
  topology_.nodes[options.own_node].state = own;
}

bool TopologyBook::set(uint32_t node, const wire::NodeState& state) noexcept {
  wire::NodeState& known = topology_.nodes[node].state;
  if (known == state) return false;
  known = state;
  return true;
}

}  // namespace sluice::peer
