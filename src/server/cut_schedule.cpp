#include "server/cut_schedule.hpp"

#include <algorithm>
#include <span>

namespace sluice::server {
namespace {

constexpr int64_t took_factor = 50;
constexpr int64_t wanted_interval_ns = 10 * base::ns_per_ms;
constexpr int64_t wanted_took_factor = 4;

// A commit takes less, even with a million subjects that all change; one that takes longer hangs.
constexpr int64_t commit_ns_max = 10 * base::ns_per_s;

}  // namespace

CutSchedule::CutSchedule(store::CutSink& sink, const CutScheduleOptions& options)
    : sink_(sink),
      options_(options),
      epoch_(options.last_epoch),
      shards_(std::make_unique<Shard[]>(options.shards)) {}

bool CutSchedule::begin(int64_t now_ns) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || due_ns() > now_ns) return false;
  const uint64_t next = epoch() + 1;
  plan_lap(next);
  is_awaited_.store(is_wanted(), std::memory_order_relaxed);
  const int64_t changed_ns = changed_ns_.exchange(0, std::memory_order_relaxed);
  cut_changed_ns_.store(changed_ns == 0 ? now_ns : changed_ns, std::memory_order_relaxed);
  begun_ns_.store(now_ns, std::memory_order_relaxed);
  took_ns_.store(0, std::memory_order_relaxed);
  epoch_.store(next, std::memory_order_release);
  return true;
}

int64_t CutSchedule::due_ns() const noexcept {
  if (!is_released()) return base::never_ns;
  const auto status = statistics().status.load(std::memory_order_relaxed);
  const bool is_over =
      status == store::WriterStatus::failed || status == store::WriterStatus::stopped;
  return is_over ? base::never_ns : not_before_ns();
}

int64_t CutSchedule::not_before_ns() const noexcept {
  const int64_t begun_ns = begun_ns_.load(std::memory_order_relaxed);
  if (begun_ns == 0) return 0;
  const int64_t took_ns = took_ns_.load(std::memory_order_relaxed);
  if (is_wanted()) {
    return begun_ns + std::max(wanted_interval_ns, wanted_took_factor * took_ns);
  }
  return begun_ns + std::max(options_.interval_ns, took_factor * took_ns);
}

// A lap is over when all shards' records are complete since it began.
void CutSchedule::plan_lap(uint64_t epoch) noexcept {
  uint64_t complete_since = UINT64_MAX;
  uint64_t alive_bytes = 0;
  for (const Shard& shard : std::span(shards_.get(), options_.shards)) {
    complete_since = std::min(complete_since, shard.complete_since.load(std::memory_order_relaxed));
    alive_bytes += shard.alive_bytes.load(std::memory_order_relaxed);
  }
  if (complete_since >= lap_epoch_) lap_epoch_ = 0;
  const uint64_t log_bytes = statistics().log_bytes.load(std::memory_order_relaxed);
  const uint64_t enough = std::max(alive_bytes + alive_bytes / 2, options_.log_bytes_min);
  const bool begins = lap_epoch_ == 0 && log_bytes >= enough;
  if (begins) lap_epoch_ = epoch;
  begins_lap_.store(begins, std::memory_order_relaxed);
  is_last_.store(ends_lap_, std::memory_order_relaxed);
  is_whole_.store(ends_lap_ && lap_epoch_ != 0, std::memory_order_relaxed);
}

// With the mutex: an epoch that a worker begins meanwhile is either none of them, or the first.
uint64_t CutSchedule::end_lap() noexcept {
  const std::lock_guard lock(mutex_);
  ends_lap_ = true;
  return epoch() + 1;
}

void CutSchedule::want(uint64_t epoch) noexcept {
  uint64_t wanted = wanted_epoch_.load(std::memory_order_relaxed);
  while (wanted < epoch && !wanted_epoch_.compare_exchange_weak(wanted, epoch)) {
  }
}

void CutSchedule::note_handed_over(uint32_t shard, const HandedOver& cut) noexcept {
  shards_[shard].complete_since.store(cut.complete_since, std::memory_order_relaxed);
  shards_[shard].alive_bytes.store(cut.alive_bytes, std::memory_order_relaxed);
  int64_t longest = took_ns_.load(std::memory_order_relaxed);
  while (longest < cut.took_ns && !took_ns_.compare_exchange_weak(longest, cut.took_ns)) {
  }
}

int64_t CutSchedule::behind_ns(int64_t now_ns) const noexcept {
  const std::atomic<int64_t>& since_ns = is_committed() ? changed_ns_ : cut_changed_ns_;
  const int64_t since = since_ns.load(std::memory_order_relaxed);
  return since == 0 ? 0 : std::max<int64_t>(now_ns - since, 0);
}

bool CutSchedule::may_promise(int64_t now_ns) const noexcept {
  if (statistics().status.load(std::memory_order_relaxed) != store::WriterStatus::running) {
    return false;
  }
  return !hangs(now_ns);
}

bool CutSchedule::hangs(int64_t now_ns) const noexcept {
  return !is_released() && now_ns - begun_ns_.load(std::memory_order_relaxed) >= commit_ns_max;
}

bool CutSchedule::notice_hang(int64_t now_ns) noexcept {
  return hangs(now_ns) && hung_epoch_.exchange(epoch(), std::memory_order_relaxed) != epoch();
}

}  // namespace sluice::server
