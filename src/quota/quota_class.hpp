// The classes of quotas in records: a number that stands for a quota, the same on every shard.
// Flow:   a subject's quota -> class_id() in its record; quota_text(), once a lap, for the file's
//         table of classes -> the quota again at the next start.
// Shape:  state::quota_class_of() the quota's JSON, as policy/quota_text.hpp writes it. The profile
//         of a quota is not part of it.
// Lives:  pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/limit.hpp"

namespace sluice::quota {

std::string quota_text(const api::Quota& quota);
uint64_t class_id(std::string_view quota_text) noexcept;

}  // namespace sluice::quota
