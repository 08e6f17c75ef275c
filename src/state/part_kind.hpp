// What the records of a part are about, for the file's table of parts.
#pragma once

#include <cstdint>

namespace sluice::state {

// quotas: also their usage, and reservations. windows: those of plain keys.
enum class PartKind : uint8_t { quotas = 1, windows = 2 };

}  // namespace sluice::state
