#include "quota/quota_class.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "policy/quota_text.hpp"

namespace sluice::quota {

std::string quota_text(const api::Quota& quota) {
  return policy::quota_json(quota).dump();
}

uint64_t class_id(std::string_view quota_text) noexcept {
  const uint64_t hash = XXH3_64bits(quota_text.data(), quota_text.size());
  return hash == 0 ? 1 : hash;
}

}  // namespace sluice::quota
