// A whole file as text, whatever the path leads to.
// Errors: a text that says why it cannot be read.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::policy {

inline constexpr size_t file_bytes_max = 16 * 1024 * 1024;

struct TextFile {
  std::string text;
  std::string error;  // why it cannot be read; empty: it was
};

// Somewhat more than file_bytes_max at most, so that whoever reads it sees that it is too large.
TextFile read_text_file(const std::string& path);

}  // namespace sluice::policy
