// The secret by which instances recognise each other: one line of a file.
// Flow:   --peer-secret-file -> read_secret_file() -> FleetOptions -> Hello.token.
// Shape:  16 to 256 bytes without control characters; a line end at the end does not count.
// Errors: std::runtime_error with one line that names the file and the cure.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::peer {

inline constexpr size_t secret_bytes_min = 16;
inline constexpr size_t secret_bytes_max = 256;

struct Secret {
  std::string text;
  std::string warning;  // others than the owner may read the file; empty: they may not
};

Secret read_secret_file(const std::string& path);

}  // namespace sluice::peer
