#include "server/window_keeper.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice::server {
namespace {

// A lap takes so many times what it takes of the thread's time.
constexpr int64_t took_factor = 50;

}  // namespace

WindowKeeper::WindowKeeper(const StateOptions& options, const shard::Options& store,
                           shard::KeyDecider& keys)
    : schedule_(options.schedule), cpu_ns_(options.cpu_ns), keys_(keys) {
  if (schedule_ == nullptr || store.kept_window_ms == base::never_ms) return;
  parts_ = std::make_unique<state::WindowParts>(
      store.keys_max, shard::key_text_bytes_max(store.keys_max, store.key_bytes_max));
}

uint64_t WindowKeeper::Lap::position_at(int64_t now_ns) const noexcept {
  if (lasts_ns == 0) return shard::positions_end;
  const double share =
      static_cast<double>(now_ns - begun_ns + window_share_ns) / static_cast<double>(lasts_ns);
  return static_cast<uint64_t>(std::min(share, 1.0) * static_cast<double>(shard::positions_end));
}

// A share that comes late has more.
int64_t WindowKeeper::Lap::has_until_ns(uint64_t position) const noexcept {
  const double share = static_cast<double>(position) / static_cast<double>(shard::positions_end);
  const auto passed_ns = static_cast<int64_t>(share * static_cast<double>(lasts_ns));
  return begun_ns + std::max<int64_t>(passed_ns - window_share_ns, 0);
}

uint64_t WindowKeeper::calls_count() const noexcept {
  const shard::Statistics& statistics = keys_.statistics();
  return std::accumulate(statistics.decisions.begin(), statistics.decisions.end(),
                         statistics.released);
}

// Where no key has such a window, there is no lap to begin.
void WindowKeeper::note_turn(int64_t now_ns) noexcept {
  const uint64_t calls = calls_count();
  had_calls_ = calls != std::exchange(turn_calls_count_, calls);
  if (!is_on() || is_under_way() || now_ns < next_share_ns_) return;
  if (calls != lap_calls_count_ && keys_.may_have_kept_windows()) return;
  lap_calls_count_ = calls;
  last_ = {.begun_ns = now_ns};
  next_share_ns_ = now_ns + window_share_ns;
}

int64_t WindowKeeper::behind_ns(int64_t now_ns) const noexcept {
  if (!is_on()) return 0;
  // A cut without a share adds nothing, and all cuts before it are durable.
  const bool is_durable = share_begin_ == share_end_ || schedule_->is_durable(epoch_);
  const bool has_more = calls_count() != lap_calls_count_ && keys_.may_have_kept_windows();
  if (is_durable && !is_under_way() && !has_more) return 0;
  const uint64_t position = is_durable ? cursor_ : share_begin_;
  if (position >= shard::positions_end) return now_ns - last_.has_until_ns(0);
  return now_ns - (is_under_way() ? last_ : earlier_).has_until_ns(position);
}

int64_t WindowKeeper::due_ns() const noexcept {
  if (!is_on()) return base::never_ns;
  return is_under_way() || calls_count() != lap_calls_count_ ? next_share_ns_ : base::never_ns;
}

void WindowKeeper::begin_cut(uint64_t epoch, Extent extent, int64_t now_ns) noexcept {
  epoch_ = epoch;
  share_begin_ = share_end_ = cursor_;
  if (!is_on() || (!is_under_way() && !keys_.may_have_kept_windows())) complete_since_ = epoch;
  if (!is_on()) return;
  parts_->clear();
  const bool may_have_changed = is_under_way() || calls_count() != lap_calls_count_;
  const bool has_all = extent == Extent::all || (extent == Extent::changed && may_have_changed);
  if (!has_all && due_ns() > now_ns) return;
  if (has_all || !is_under_way()) begin_lap(epoch, now_ns, has_all ? 0 : lap_ns_);
  share_begin_ = cursor_;
  share_end_ = lap_.position_at(now_ns);
  next_share_ns_ = now_ns + window_share_ns;
}

void WindowKeeper::begin_lap(uint64_t epoch, int64_t now_ns, int64_t lasts_ns) noexcept {
  cursor_ = 0;
  lap_ = {.first_epoch = epoch, .begun_ns = now_ns, .lasts_ns = lasts_ns};
  lap_took_ns_ = 0;
  lap_calls_count_ = calls_count();
}

bool WindowKeeper::write_some(uint32_t buckets, base::Now now) noexcept {
  if (cursor_ >= share_end_) return false;
  const int64_t begin_ns = cpu_ns_();
  cursor_ = keys_.write_windows({.cursor = cursor_, .end = share_end_, .buckets_max = buckets},
                                *parts_, now);
  lap_took_ns_ += cpu_ns_() - begin_ns;
  if (!is_under_way()) end_lap();
  return cursor_ < share_end_;
}

void WindowKeeper::end_lap() noexcept {
  earlier_ = std::exchange(last_, lap_);
  complete_since_ = lap_.first_epoch;
  lap_ns_ = std::max(window_lap_ns_min, took_factor * lap_took_ns_);
  next_share_ns_ = lap_.begun_ns + lap_ns_;
}

void WindowKeeper::finish(const state::PartHeader& header) noexcept {
  if (is_on()) parts_->finish(header);
}

std::span<const state::PartBytes> WindowKeeper::parts() const noexcept {
  return is_on() ? parts_->parts() : std::span<const state::PartBytes>();
}

}  // namespace sluice::server
