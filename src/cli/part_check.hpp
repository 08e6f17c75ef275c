// Reads the parts and quotas of a state file, whose bytes src/store does not know.
// Flow:   store::read_info() and check() -> these -> state::PartReader.
// Errors: values; any bytes may come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "server/part_damage.hpp"
#include "store/state_reader.hpp"

namespace sluice::cli {

// The wall time of the cut; none: the part is damaged.
std::optional<int64_t> cut_wall_ns(std::span<const std::byte> part);

using server::find_damage;  // of a part

// What a server finds when it loads a quota.
struct QuotaFinding {
  enum class State : uint8_t {
    sound,
    unusable,  // its bits are right, but not for this program on this machine: see the cause
    damaged
  };
  State state = State::sound;
  std::string cause;
};
QuotaFinding examine(const store::StoredClass& quota);
QuotaFinding examine(const store::StoredQuota& put);

}  // namespace sluice::cli
