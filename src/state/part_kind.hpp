// What the records of a part are about, for the file's table of parts.
#pragma once

#include <cstdint>

namespace sluice::state {

// quotas: also their usage, and reservations. windows: those of plain keys.
enum class PartKind : uint8_t { quotas = 1, windows = 2 };

// A later version may know others.
constexpr bool is_known_kind(uint8_t kind) noexcept {
  return kind == static_cast<uint8_t>(PartKind::quotas) ||
         kind == static_cast<uint8_t>(PartKind::windows);
}

}  // namespace sluice::state
