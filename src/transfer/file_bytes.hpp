// Reads a file that somebody else made, as bytes.
// Errors: no file, no permission, too large.
// Bounds: go_ratelimit_file_bytes_max.
#pragma once

#include <cstddef>
#include <string>

#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

// At most `bytes_max` from its begin.
Complained<std::string> read_begin(const std::string& path, size_t bytes_max);
Complained<std::string> read_all(const std::string& path);

}  // namespace sluice::transfer
