// A part without the subjects whose quota is lost: no server could load their usage.
// Errors: none: the part must be one that PartReader finds sound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::state {

struct FilteredPart {
  std::vector<std::byte> bytes;
  uint32_t left_out = 0;  // subjects
};

// `classes` is in order. Subjects without a quota stay.
FilteredPart without_other_classes(std::span<const std::byte> part,
                                   std::span<const uint64_t> classes);

}  // namespace sluice::state
