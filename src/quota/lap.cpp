#include "quota/lap.hpp"

namespace sluice::quota {

// `needs(place)`: whether it needs a record. The places end with `end`.
template <typename Needs>
inline size_t Lap::find(std::span<uint32_t> places, int64_t& checks, uint32_t end,
                        Needs needs) noexcept {
  size_t found = 0;
  for (; at_ < end && checks > 0 && found < places.size(); ++at_, --checks) {
    if (needs(at_)) places[found++] = at_;
  }
  if (found == 0 && at_ >= end) {
    stage_ = static_cast<Stage>(static_cast<uint8_t>(stage_) + 1);
    at_ = 0;
  }
  return found;
}

bool Lap::end_cut(bool is_whole) noexcept {
  if (!has_passed()) return false;
  const bool is_complete = is_whole || stage_ == Stage::passed_before;
  stage_ = is_complete ? Stage::none : Stage::passed_before;
  return is_complete;
}

size_t Lap::next(std::span<uint32_t> places, int64_t& checks) noexcept {
  switch (stage_) {
    case Stage::subjects: {
      const SubjectTable::Pool& pool = subjects_.pool();
      return find(places, checks, pool.index_end(),
                  [&](uint32_t place) { return pool.holds(place) && log_.needs_lap(pool[place]); });
    }
    case Stage::reservations: {
      const ReservationBook::Pool& pool = reservations_.pool();
      return find(places, checks, pool.index_end(),
                  [&](uint32_t place) { return pool.holds(place) && log_.needs_lap(pool[place]); });
    }
    case Stage::ends: {
      const IdBook& ids = reservations_.ids();
      size_t found = 0;
      for (; checks > 0 && found < places.size(); ++at_, --checks) {
        at_ = ids.next_recorded(at_);
        if (at_ == IdBook::none) break;
        const IdRecord& end = ids.end_at(at_);
        if (log_.needs_lap(end) && end.forgotten_ms > clock_.ms()) places[found++] = at_;
      }
      if (at_ == IdBook::none && found == 0) stage_ = Stage::passed;
      return found;
    }
    case Stage::none:
    case Stage::passed:
    case Stage::passed_before:
      break;
  }
  return 0;
}

}  // namespace sluice::quota
