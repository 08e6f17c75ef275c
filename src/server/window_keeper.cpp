#include "server/window_keeper.hpp"

#include <numeric>
#include <utility>

namespace sluice::server {

WindowKeeper::WindowKeeper(const StateOptions& options, const shard::Options& store,
                           shard::KeyDecider& keys)
    : schedule_(options.schedule), cpu_ns_(options.cpu_ns), keys_(keys) {
  if (schedule_ == nullptr || store.kept_window_ms == base::never_ms) return;
  parts_ = std::make_unique<state::WindowParts>(
      store.keys_max, shard::key_text_bytes_max(store.keys_max, store.key_bytes_max));
}

uint64_t WindowKeeper::calls_count() const noexcept {
  const shard::Statistics& statistics = keys_.statistics();
  return std::accumulate(statistics.decisions.begin(), statistics.decisions.end(),
                         statistics.released);
}

// Where no key has such a window, there is no lap to begin.
void WindowKeeper::note_turn(int64_t now_ns) noexcept {
  const uint64_t calls = calls_count();
  turn_calls_count_ = calls - std::exchange(calls_before_turn_, calls);
  if (!is_on() || laps_.is_under_way() || now_ns < laps_.next_share_ns()) return;
  if (calls != lap_calls_count_ && keys_.may_have_kept_windows()) return;
  lap_calls_count_ = calls;
  laps_.skip(now_ns);
}

int64_t WindowKeeper::behind_ns(int64_t now_ns) const noexcept {
  if (!is_on()) return 0;
  // A cut without a share adds nothing, and all cuts before it are durable.
  const bool is_durable = !laps_.has_share() || schedule_->is_durable(laps_.epoch());
  const bool has_more = has_new_calls() && keys_.may_have_kept_windows();
  if (is_durable && !laps_.is_under_way() && !has_more) return 0;
  return now_ns - laps_.has_until_ns(is_durable);
}

int64_t WindowKeeper::due_ns() const noexcept {
  if (!is_on()) return base::never_ns;
  return laps_.is_under_way() || has_new_calls() ? laps_.next_share_ns() : base::never_ns;
}

void WindowKeeper::begin_cut(uint64_t epoch, Extent extent, int64_t now_ns) noexcept {
  laps_.begin_cut(epoch);
  if (!is_on()) return laps_.drop_earlier();
  parts_->clear();
  if (!laps_.is_under_way() && !keys_.may_have_kept_windows()) laps_.drop_earlier();
  const bool may_have_changed = laps_.is_under_way() || has_new_calls();
  const bool has_all = extent == Extent::all || (extent == Extent::changed && may_have_changed);
  const int64_t patience_ns = extent == Extent::little ? window_share_ns : 0;
  if (!has_all && due_ns() > now_ns - patience_ns) return;
  if (has_all || !laps_.is_under_way()) lap_calls_count_ = calls_count();
  laps_.begin_share(now_ns, has_all);
}

bool WindowKeeper::write_some(uint32_t buckets, base::Now now) noexcept {
  if (laps_.cursor() >= laps_.share_end()) return false;
  const int64_t begin_ns = cpu_ns_();
  const uint64_t cursor = keys_.write_windows(
      {.cursor = laps_.cursor(), .end = laps_.share_end(), .buckets_max = buckets}, *parts_, now);
  laps_.move(cursor, cpu_ns_() - begin_ns);
  return cursor < laps_.share_end();
}

void WindowKeeper::finish(const state::PartHeader& header) noexcept {
  if (is_on()) parts_->finish(header);
}

std::span<const state::PartBytes> WindowKeeper::parts() const noexcept {
  return is_on() ? parts_->parts() : std::span<const state::PartBytes>();
}

}  // namespace sluice::server
