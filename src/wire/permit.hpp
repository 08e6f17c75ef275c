// What Granted carries for each approved entry of a Forward, and Refund returns: its refund
// claim.
// Flow:   the owner's grant -> permit_of() -> Granted -> the entry node, which never reads it -> if
//         its client has left: Refund -> claim_of().
// Shape:  key_tag 8 bytes, window_end_ms 8, key_position 4, cost 4, shard 2, zeros 6.
// Errors: none: claim_of() reads any bytes. A claim that is no grant's names no key, or no shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "api/entry.hpp"

namespace sluice::wire {

inline constexpr size_t permit_bytes = 32;
using Permit = std::array<std::byte, permit_bytes>;

struct PermitClaim {
  api::RefundClaim claim;
  api::ShardId shard = 0;  // of the key; perhaps none of this server's
};

namespace permit_at {
constexpr size_t key_tag = 0, window_end_ms = 8, key_position = 16, cost = 20, shard = 24;
}

inline Permit permit_of(const api::RefundClaim& claim, api::ShardId shard) noexcept {
  Permit permit{};
  const auto put = [&](size_t byte, auto value) {
    std::memcpy(permit.data() + byte, &value, sizeof value);
  };
  put(permit_at::key_tag, claim.key_tag);
  put(permit_at::window_end_ms, claim.window_end_ms);
  put(permit_at::key_position, claim.key_position);
  put(permit_at::cost, claim.cost);
  put(permit_at::shard, shard);
  return permit;
}

// Of a column of permits.
constexpr size_t permits_count(std::string_view permits) noexcept {
  return permits.size() / permit_bytes;
}
inline Permit nth_permit(std::string_view permits, size_t index) noexcept {
  Permit permit;
  std::memcpy(permit.data(), permits.data() + index * permit_bytes, permit_bytes);
  return permit;
}

inline PermitClaim claim_of(const Permit& permit) noexcept {
  PermitClaim read;
  const auto take = [&](size_t byte, auto& value) {
    std::memcpy(&value, permit.data() + byte, sizeof value);
  };
  take(permit_at::key_tag, read.claim.key_tag);
  take(permit_at::window_end_ms, read.claim.window_end_ms);
  take(permit_at::key_position, read.claim.key_position);
  take(permit_at::cost, read.claim.cost);
  take(permit_at::shard, read.shard);
  return read;
}

}  // namespace sluice::wire
