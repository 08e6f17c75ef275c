// The value of a store's result; its failure as an exception, which a command prints in one line.
#pragma once

#include <stdexcept>
#include <type_traits>
#include <utility>

#include "store/failure.hpp"

namespace sluice::migration {

template <typename Value>
Value value_or_throw(store::Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text);
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

}  // namespace sluice::migration
