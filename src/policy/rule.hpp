// One entry of the configuration file: keys that match get the limits it sets.
// Shape:  values that it does not set stay as earlier entries, or the flags, set them.
// Source: gocc's configuration file; `can_queue` is ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "limiter/policy.hpp"

namespace sluice::policy {

struct Rule {
  std::string pattern;  // a whole key; or RE2 that matches anywhere in a key
  bool is_regex = false;
  std::optional<uint32_t> max_requests;
  std::optional<uint32_t> max_requests_in_queue;
  std::optional<int64_t> window_ms;

  void apply_to(limiter::Policy& policy) const noexcept {
    if (max_requests) policy.max_requests = *max_requests;
    if (max_requests_in_queue) policy.max_requests_in_queue = *max_requests_in_queue;
    if (window_ms) policy.window_ms = *window_ms;
  }

  bool operator==(const Rule&) const = default;
};

}  // namespace sluice::policy
