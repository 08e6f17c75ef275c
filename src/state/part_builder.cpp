#include "state/part_builder.hpp"

#include "base/assert.hpp"

namespace sluice::state {

static_assert(gone_bytes_max <= ended_bytes_max);

size_t arena_bytes(const ArenaBounds& bounds) noexcept {
  const size_t subject = subject_bytes_max(bounds.name_bytes_max, limits::quota_limits_max);
  const size_t reservation = reservation_bytes_max + 2 * ended_bytes_max;
  return part_arena_bytes(bounds.subjects_max * (subject + gone_bytes_max) +
                          bounds.reservations_max * reservation);
}

PartBuilder::PartBuilder(const ArenaBounds& bounds)
    : arena_(arena_bytes(bounds), "state of a shard (--max-subjects, --max-reservations)") {}

void PartBuilder::append(const SubjectRecord& subject) noexcept {
  arena_.add(subject);
}
void PartBuilder::append(const GoneSubject& gone) noexcept {
  arena_.add(gone);
}
void PartBuilder::append(const ReservationRecord& reservation) noexcept {
  arena_.add(reservation);
}
void PartBuilder::append(const EndedReservation& ended) noexcept {
  arena_.add(ended);
}
void PartBuilder::append(const GoneReservation& gone) noexcept {
  arena_.add(gone);
}

void PartBuilder::add_class(uint64_t id, std::string_view quota) noexcept {
  ASSERT(!arena_.is_finished());
  classes_.push_back({.id = id, .quota = std::string(quota)});
}

void PartBuilder::change_quota(const QuotaChange& change) noexcept {
  ASSERT(!arena_.is_finished());
  quota_changes_.push_back(
      {.name = std::string(change.name), .quota = std::nullopt, .wall_ms = change.wall_ms});
  if (change.quota) quota_changes_.back().quota.emplace(*change.quota);
}

void PartBuilder::clear() noexcept {
  arena_.clear();
  classes_.clear();
  quota_changes_.clear();
}

}  // namespace sluice::state
