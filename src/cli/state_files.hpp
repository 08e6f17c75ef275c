// What the actions of `sluicegate state` share.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "store/failure.hpp"

namespace sluice::cli {

// Throws one line if there is no such file: SQLite would speak of a folder that cannot be written,
// or of the disk.
void require_state_file(const std::string& file);

template <typename Value>
Value value_or_throw(store::Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

inline void throw_failure(const store::Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().text);
}

}  // namespace sluice::cli
