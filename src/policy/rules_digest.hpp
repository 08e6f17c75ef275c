// One number for all limits that the flags, the configuration file and its profiles set, and for
// --peer-timeout-millis: instances that limit together compare theirs, and warn where two differ.
// Shape:  XXH3-64 of the effective rules as JSON, in their order: how the file is laid out, and
//         which of its limits come from a profile of which name, makes no difference.
// Lives:  when rules are adopted; allocates.
#pragma once

#include <cstdint>
#include <span>

#include "limiter/policy.hpp"
#include "policy/quota_book.hpp"
#include "policy/rule.hpp"

namespace sluice::policy {

uint64_t rules_digest(const limiter::Policy& default_policy, std::span<const Rule> rules,
                      const QuotaRules& quotas, int64_t peer_timeout_ms);

}  // namespace sluice::policy
