// The header by which GET /healthz says that this is a Sluicegate, and how its peers reach it.
// Flow:   facts -> node_header_line() -> the answer to GET /healthz -> parse_node_header() at a
//         peer. An instance that answers without the header is a gocc.
// Shape:  Sluicegate-Node: native=8081, shards=4, instance=0011223344556677, rules=8899AABBCCDDEEFF
//         In any order; fields that a later version adds are passed over. `rules` is there if it is
//         one of several instances.
// Errors: nullopt for a text without the first three fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::wire {

inline constexpr std::string_view node_header_name = "Sluicegate-Node";

struct NodeFacts {
  uint16_t native_port = 0;  // 0: it has none
  uint32_t shards = 1;
  uint64_t instance = 0;  // another one after each start
  uint64_t rules = 0;     // policy::rules_digest(); 0: not given
  bool operator==(const NodeFacts&) const = default;

  // Its rules may have changed meanwhile.
  bool is_same_process(const NodeFacts& other) const noexcept {
    return native_port == other.native_port && shards == other.shards && instance == other.instance;
  }
};

// With its line end.
std::string node_header_line(const NodeFacts& facts);

// Reads the header's value.
std::optional<NodeFacts> parse_node_header(std::string_view value) noexcept;

}  // namespace sluice::wire
