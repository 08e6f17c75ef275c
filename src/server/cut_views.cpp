#include "server/cut_views.hpp"

namespace sluice::server {

void CutViews::take(const state::PartBuilder& quotas) {
  parts_.clear();
  classes_.clear();
  quota_changes_.clear();
  add(state::PartKind::quotas, quotas.parts());
  for (const state::QuotaClass& each : quotas.quota_classes()) {
    classes_.push_back({.id = each.id, .quota = each.quota});
  }
  for (const state::OwnedQuotaChange& each : quotas.quota_changes()) {
    quota_changes_.push_back({.name = each.name, .quota = each.quota, .put_at = each.wall_ms});
  }
}

void CutViews::add(state::PartKind kind, std::span<const state::PartBytes> parts) {
  for (const state::PartBytes part : parts) {
    parts_.push_back({.kind = static_cast<uint8_t>(kind), .bytes = part});
  }
}

}  // namespace sluice::server
