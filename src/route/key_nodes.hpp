// To which node of a list each key of a request belongs.
// Shape:  a step of FNV-1a waits for the one before, so several keys are hashed side by side:
//         eight in vectors where the processor has AVX2, else four.
// Source: proto/node_hash.hpp, whose key_node() says the same of a single key.
#pragma once

#include <cstdint>
#include <span>

#include "route/key_column.hpp"

namespace sluice::route {

// `nodes`: one for each key. `nodes_count`: at least 2.
void find_nodes(const KeyColumn& keys, uint16_t nodes_count, std::span<uint16_t> nodes) noexcept;

// Its two ways; the second only where it is available.
void find_nodes_by_fours(const KeyColumn& keys, uint16_t nodes_count,
                         std::span<uint16_t> nodes) noexcept;
bool can_find_nodes_by_eights() noexcept;
void find_nodes_by_eights(const KeyColumn& keys, uint16_t nodes_count,
                          std::span<uint16_t> nodes) noexcept;

}  // namespace sluice::route
