#include "server/window_laps.hpp"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

constexpr int64_t took_factor = 33;

}  // namespace

uint64_t WindowLaps::Lap::position_at(int64_t now_ns) const noexcept {
  if (lasts_ns == 0) return shard::positions_end;
  const double share =
      static_cast<double>(now_ns - begun_ns + window_share_ns) / static_cast<double>(lasts_ns);
  return static_cast<uint64_t>(std::min(share, 1.0) * static_cast<double>(shard::positions_end));
}

// A share that comes late has more.
int64_t WindowLaps::Lap::has_until_ns(uint64_t position) const noexcept {
  const double share = static_cast<double>(position) / static_cast<double>(shard::positions_end);
  const auto passed_ns = static_cast<int64_t>(share * static_cast<double>(lasts_ns));
  return begun_ns + std::max<int64_t>(passed_ns - window_share_ns, 0);
}

void WindowLaps::skip(int64_t now_ns) noexcept {
  last_ = {.begun_ns = now_ns};
  next_share_ns_ = now_ns + window_share_ns;
}

void WindowLaps::begin_cut(uint64_t epoch) noexcept {
  epoch_ = epoch;
  share_begin_ = share_end_ = cursor_;
}

void WindowLaps::begin_share(int64_t now_ns, bool is_whole) noexcept {
  if (is_whole || !is_under_way()) {
    cursor_ = 0;
    took_ns_ = 0;
    lap_ = {.first_epoch = epoch_, .begun_ns = now_ns, .lasts_ns = is_whole ? 0 : next_lasts_ns_};
  }
  share_begin_ = cursor_;
  share_end_ = lap_.position_at(now_ns);
  next_share_ns_ = now_ns + window_share_ns;
}

void WindowLaps::move(uint64_t cursor, int64_t took_ns) noexcept {
  cursor_ = cursor;
  took_ns_ += took_ns;
  if (!is_under_way()) end_lap();
}

void WindowLaps::end_lap() noexcept {
  earlier_ = std::exchange(last_, lap_);
  complete_since_ = lap_.first_epoch;
  next_lasts_ns_ = std::max(window_lap_ns_min, took_factor * took_ns_);
  // What was written at once becomes old at once: the next lap goes over it from now on.
  next_share_ns_ = lap_.begun_ns + (lap_.lasts_ns == 0 ? window_share_ns : next_lasts_ns_);
}

int64_t WindowLaps::has_until_ns(bool with_last) const noexcept {
  const uint64_t position = with_last ? cursor_ : share_begin_;
  if (position >= shard::positions_end) return last_.has_until_ns(0);
  return (is_under_way() ? last_ : earlier_).has_until_ns(position);
}

}  // namespace sluice::server
