// A model's quota of go-ratelimit <-> ours.
// Shape:  max_rpm <-> requests, sliding, a minute ("rpm"); max_tpm <-> tokens, likewise ("tpm");
//         max_rpd <-> requests, anchored_day ("rpd"). Their 0 is our "unlimited".
// Lives:  pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/limit.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::migration {

inline constexpr int64_t minute_ms = 60'000;

// The limits of a model, in the order in which quota_of() has them.
enum class ModelLimit : uint8_t { rpm = 0, tpm = 1, rpd = 2 };
inline constexpr size_t model_limits_count = 3;

// Always with all three limits. Amounts are not negative.
api::Quota quota_of(const transfer::ModelQuota& quota);

// What of our quota the library can have.
struct QuotaOutThere {
  transfer::ModelQuota quota;
  // The places of its three limits in our quota; none: unlimited there.
  std::array<std::optional<size_t>, model_limits_count> places;
  std::vector<transfer::Complaint> left_out;  // the place is a limit, or a field of the quota

  // Whether it says anything of the subject: a quota without limits does, one whose limits were all
  // left out does not.
  bool is_known = true;
};

// Of several limits that would become the same one, the library gets the lowest.
QuotaOutThere model_quota_of(const api::Quota& quota);

}  // namespace sluice::migration
