// The value of a result; its failure as an exception, for commands and the start of a server, which
// print it in one line. Calls need no `store::`: the argument's type leads here.
#pragma once

#include <stdexcept>
#include <type_traits>
#include <utility>

#include "store/failure.hpp"

namespace sluice::store {

template <typename Value>
Value value_or_throw(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text);
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

}  // namespace sluice::store
