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

// Why no server can load the quota. None: it can.
std::optional<std::string> find_damage(const store::StoredClass& quota);
std::optional<std::string> find_damage(const store::StoredQuota& put);

}  // namespace sluice::cli
