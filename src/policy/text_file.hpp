// Reads a whole file as text; the path may lead to anything.
// Errors: a text with the reason.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::policy {

inline constexpr size_t file_bytes_max = 16 * 1024 * 1024;

struct TextFile {
  std::string text;
  std::string error;  // why it cannot be read; empty: it was read
};

// Reads slightly more than file_bytes_max at most: enough to see that a file is too large.
TextFile read_text_file(const std::string& path);

}  // namespace sluice::policy
