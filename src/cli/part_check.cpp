#include "cli/part_check.hpp"

#include "policy/quota_text.hpp"
#include "state/part_reader.hpp"
#include "state/record.hpp"

namespace sluice::cli {

std::optional<int64_t> cut_wall_ns(std::span<const std::byte> part) {
  const auto header = state::read_header(part);
  if (!header) return std::nullopt;
  return header->time.machine.wall_ns;
}

std::optional<std::string> find_damage(const store::StoredClass& quota) {
  if (state::quota_class_of(quota.quota) != quota.id) return "it is not the one that was written";
  return find_damage(store::StoredQuota{.quota = quota.quota});
}

std::optional<std::string> find_damage(const store::StoredQuota& put) {
  const policy::ParsedQuota parsed = policy::parse_quota(put.quota);
  if (parsed.complaints.empty()) return std::nullopt;
  return parsed.complaints.front();
}

}  // namespace sluice::cli
