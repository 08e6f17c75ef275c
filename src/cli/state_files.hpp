// What the actions of `sluicegate state` share.
#pragma once

#include <string>

namespace sluice::cli {

// Throws one line if there is no such file: SQLite would speak of a folder that cannot be written,
// or of the disk.
void require_state_file(const std::string& file);

}  // namespace sluice::cli
