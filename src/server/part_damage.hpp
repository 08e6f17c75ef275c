// Finds damage in a part of a state file, whose bytes src/store does not know.
// Flow:   store::StateFile::open(), before it migrates a file; `sluicegate state` -> find_damage().
// Errors: values; any bytes may come.
#pragma once

#include <optional>
#include <string>

#include "store/state_reader.hpp"

namespace sluice::server {

// Why the part is damaged: its bits, what its row says of it, or, of a kind that is known, one of
// its records. None: it is sound.
std::optional<std::string> find_damage(const store::StoredPart& part);

}  // namespace sluice::server
