// A cursor over the pages of all shards, in one number that clients send with the next request.
// Shape:  bits 40 and up: the shard; below: the cursor in that shard's own table, at most 33 bits.
#pragma once

#include <cstdint>

namespace sluice::server {

struct ShardCursor {
  static constexpr uint32_t place_bits = 40;

  uint32_t shard = 0;
  uint64_t place = 0;

  static constexpr ShardCursor of(uint64_t number) noexcept {
    return {.shard = static_cast<uint32_t>(number >> place_bits),
            .place = number & ((uint64_t{1} << place_bits) - 1)};
  }
  constexpr uint64_t number() const noexcept { return uint64_t{shard} << place_bits | place; }
};

}  // namespace sluice::server
