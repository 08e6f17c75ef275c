// Values that may be errors, and the three outcomes of a decoder.
// Errors: Result<T> carries an ErrorCode; a failure leaves state unchanged.
#pragma once

#include <tl/expected.hpp>

#include <cstddef>
#include <variant>

#include "base/error_code.hpp"

namespace sluice::base {

template <typename T>
using Result = tl::expected<T, ErrorCode>;

using Failure = tl::unexpected<ErrorCode>;

// A decoder's outcomes (the contract of picohttpparser): a whole unit, not enough bytes yet, or
// bytes that no further byte can mend.
template <typename T>
struct Complete {
  T value;
  size_t consumed_bytes;
};

struct NeedMore {
  size_t total_bytes;  // how long the unit will at least be; 0: unknown
};

struct Malformed {
  ErrorCode code;
};

template <typename T>
using Decoded = std::variant<Complete<T>, NeedMore, Malformed>;

}  // namespace sluice::base
