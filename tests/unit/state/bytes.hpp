// Bytes for the tests of this folder: room to write to, and reading at the end of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "state/byte_writer.hpp"

namespace sluice::state {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// What `write(writer)` writes.
template <typename Write>
Bytes written(Write write) {
  Bytes bytes(128 * 1024);
  ByteWriter writer(bytes);
  write(writer);
  bytes.resize(writer.size());
  return bytes;
}

}  // namespace sluice::state
