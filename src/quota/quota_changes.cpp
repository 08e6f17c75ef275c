#include "quota/quota_changes.hpp"

#include "base/time.hpp"
#include "quota/quota_class.hpp"

namespace sluice::quota {

void QuotaChanges::put(std::string_view name, const api::Quota& quota, int64_t wall_ns) {
  if (!is_on_) return;
  changes_.insert_or_assign(std::string(name),
                            Change{.quota = quota_text(quota), .wall_ms = base::floor_ms(wall_ns)});
}

void QuotaChanges::remove(std::string_view name, int64_t wall_ns) {
  if (!is_on_) return;
  changes_.insert_or_assign(std::string(name),
                            Change{.quota = std::nullopt, .wall_ms = base::floor_ms(wall_ns)});
}

void QuotaChanges::write(state::StateSink& sink) noexcept {
  for (const auto& [name, change] : changes_) {
    sink.change_quota({.name = name, .quota = change.quota, .wall_ms = change.wall_ms});
  }
  changes_.clear();
}

}  // namespace sluice::quota
