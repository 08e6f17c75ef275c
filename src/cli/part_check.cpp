#include "cli/part_check.hpp"

#include "policy/quota_text.hpp"
#include "state/part.hpp"
#include "state/record.hpp"

namespace sluice::cli {

std::optional<int64_t> cut_wall_ns(std::span<const std::byte> part) {
  const auto header = state::read_header(part);
  if (!header) return std::nullopt;
  return header->time.machine.wall_ns;
}

// The text of a quota that was put has no checksum: damage is what is no JSON.
QuotaFinding examine(const store::StoredQuota& put) {
  using State = QuotaFinding::State;
  const policy::ParsedQuota parsed = policy::parse_quota(put.quota);
  if (parsed.complaints.empty()) return {};
  return {.state = parsed.is_json ? State::unusable : State::damaged,
          .cause = parsed.complaints.front()};
}

QuotaFinding examine(const store::StoredClass& quota) {
  using State = QuotaFinding::State;
  if (state::quota_class_of(quota.quota) != quota.id) {
    return {.state = State::damaged, .cause = "it is not the one that was written"};
  }
  QuotaFinding found = examine(store::StoredQuota{.quota = quota.quota});
  if (found.state == State::damaged) found.state = State::unusable;
  return found;
}

}  // namespace sluice::cli
