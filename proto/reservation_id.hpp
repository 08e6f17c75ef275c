// The ids of reservations: the node and the shard that have one follow from its id, whatever the
// number of shards. Shared by server and clients.
// Flow:   routing hash of the first subject -> route -> id -> the shard that a settle goes to.
// Shape:  from the highest bit: slot (14 bits: the node's place in its list, plus one; 0 on a node
//         without a list), route (16), whether several shards had parts of the reservation when it
//         was made (1), count (8), random (25). The last two are `random` below; quota/id_book.hpp
//         draws them. Never 0. The route divides the range of the routing hash into 65,536 steps.
// Source: docs/adr/0014-ids-lead-to-their-shard.md.
#pragma once

#include <cstdint>

namespace sluice::proto {

inline constexpr uint32_t routed_shards_max = 256;

namespace reservation_id {

inline constexpr uint32_t random_bits = 33;
inline constexpr uint64_t random_mask = (uint64_t{1} << random_bits) - 1;
inline constexpr uint32_t several_bit = 33;
inline constexpr uint32_t route_bit = 34;
inline constexpr uint32_t slot_bit = 50;
inline constexpr uint32_t slots_max = uint32_t{1} << 14;
inline constexpr uint16_t no_slot = 0;  // of a node without a list

constexpr uint64_t make(uint16_t route, bool several, uint64_t random,
                        uint16_t slot = no_slot) noexcept {
  return (uint64_t{slot} << slot_bit) | (uint64_t{route} << route_bit) |
         (uint64_t{several} << several_bit) | (random & random_mask);
}
constexpr uint16_t slot_of(uint64_t id) noexcept {
  return static_cast<uint16_t>(id >> slot_bit);
}
constexpr uint16_t slot_of_node(uint32_t node) noexcept {
  return static_cast<uint16_t>(node + 1);
}
constexpr uint16_t route_of(uint64_t id) noexcept {
  return static_cast<uint16_t>(id >> route_bit);
}
constexpr bool has_several_shards(uint64_t id) noexcept {
  return (id >> several_bit & 1) != 0;
}

}  // namespace reservation_id

constexpr uint32_t shard_of_route(uint16_t route, uint32_t shards_count) noexcept {
  return (uint32_t{route} * shards_count) >> 16;
}

// The shard that has the reservation.
constexpr uint32_t reservation_shard(uint64_t id, uint32_t shards_count) noexcept {
  return shard_of_route(reservation_id::route_of(id), shards_count);
}

// The upper half of the hash picks the shard (key_hash.hpp): shards begin at n/N of its range.
// Between two such fractions, with N up to 256, lies at least 1/(256 * 255), which is more than a
// step of the route: the step before or behind the hash is between the same fractions as the hash.
constexpr uint16_t route_of_hash(uint64_t hash) noexcept {
  const auto upper = static_cast<uint32_t>(hash >> 32);
  const auto before = static_cast<uint16_t>(upper >> 16);
  uint32_t differences = 0;
  for (uint32_t shards = 2; shards <= routed_shards_max; ++shards) {
    const auto shard = static_cast<uint32_t>((uint64_t{upper} * shards) >> 32);
    differences |= shard ^ shard_of_route(before, shards);
  }
  return differences == 0 ? before : static_cast<uint16_t>(before + 1);
}

}  // namespace sluice::proto
