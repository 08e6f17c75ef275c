// The longest time that a call may take, by its options.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "option_bounds.hpp"
#include "sluicegate/connection.hpp"

namespace sluicegate {

// Nothing: unlimited, for a call that waits in the queue without any limit.
inline std::optional<std::chrono::milliseconds> patience(const AcquireOptions& options,
                                                         std::chrono::milliseconds call_timeout) {
  const bool is_limited = !options.may_wait || options.wait_limit_ms > 0;
  if (!is_limited && options.timeout.count() == 0) return std::nullopt;
  const auto own =
      std::min(options.timeout.count() > 0 ? options.timeout : call_timeout, longest_time);
  return own + std::chrono::milliseconds{options.may_wait ? options.wait_limit_ms : 0};
}

}  // namespace sluicegate
