#include "quota/quota_class.hpp"

#include "policy/quota_text.hpp"
#include "state/record.hpp"

namespace sluice::quota {

std::string quota_text(const api::Quota& quota) {
  return policy::quota_json(quota).dump();
}

uint64_t class_id(std::string_view quota_text) noexcept {
  return state::quota_class_of(quota_text);
}

}  // namespace sluice::quota
