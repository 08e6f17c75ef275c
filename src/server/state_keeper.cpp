#include "server/state_keeper.hpp"

#include <algorithm>

#include "log/log.hpp"

namespace sluice::server {
namespace {

// Records that are handed over in a turn: as many as it does not notice, and more in an idle one.
constexpr uint64_t turn_records_min = 64;
constexpr uint64_t calls_per_record = 4;
constexpr uint64_t key_calls_per_record = 16;
constexpr uint32_t idle_turn_records = 1'024;

// What a record takes, about, where the shares had too few.
constexpr int64_t record_ns = 200;
constexpr uint64_t shares_count_min = 256;

// The mean length of so many records counts.
constexpr uint64_t record_bytes_count_min = 64;

}  // namespace

StateKeeper::StateKeeper(const StateOptions& options, const quota::Options& store,
                         quota::QuotaDecider& quotas, WindowKeeper& windows)
    : schedule_(options.schedule),
      options_(options),
      shard_(store.shard),
      shards_(store.shards),
      quotas_(quotas),
      windows_(windows) {
  if (!is_on()) return;
  // The workers that have started before this one may have begun an epoch: it needs this cut, too.
  epoch_ = schedule_->stored_epoch();
  writes_all_ = options_.stored_shards != 0 && options_.stored_shards != shards_;
  builder_ = std::make_unique<state::PartBuilder>(
      state::ArenaBounds{.subjects_max = store.subjects_max,
                         .name_bytes_max = store.name_bytes_max,
                         .reservations_max = store.reservations_max});
}

bool StateKeeper::keep(base::Now now, uint64_t calls) noexcept {
  if (!is_on()) return false;
  now_ns_ = now.monotonic_ns;
  windows_.note_turn(now_ns_);
  if (quotas_.has_changes() && schedule_->epoch() == epoch_) schedule_->note_changes(now_ns_);
  const bool begins = !is_under_way_ && has_reason() && schedule_->begin(now_ns_);
  before_message();
  log_hang(now);
  if (!is_under_way_) return begins;
  is_under_way_ = write_some(turn_records(calls), now);
  if (!is_under_way_) hand_over(now);
  return begins;
}

uint32_t StateKeeper::turn_records(uint64_t calls) const noexcept {
  const uint64_t key_calls = windows_.turn_calls_count();
  if (calls + key_calls == 0) return idle_turn_records;
  const uint64_t share = std::max(calls / calls_per_record, key_calls / key_calls_per_record);
  return static_cast<uint32_t>(std::max(turn_records_min, share));
}

bool StateKeeper::has_reason() const noexcept {
  return quotas_.has_changes() || schedule_->is_wanted() || windows_.due_ns() <= now_ns_;
}

// False: the cut has everything.
bool StateKeeper::write_some(uint32_t records, base::Now now) noexcept {
  if (has_quotas_left_) {
    const int64_t begin_ns = options_.cpu_ns();
    const uint64_t count_before = builder_->records_count();
    has_quotas_left_ = quotas_.hand_over(records);
    shares_count_ += builder_->records_count() - count_before;
    took_ns_ += options_.cpu_ns() - begin_ns;
  }
  return has_quotas_left_ || windows_.write_some(records, now);
}

void StateKeeper::log_hang(base::Now now) noexcept {
  if (!schedule_->notice_hang(now.monotonic_ns)) return;
  log::error(
      "the state is not written for now: a commit has not ended for 10 s; see the kernel's log, "
      "and whether all shards have CPU time",
      {{"epoch", schedule_->epoch()}});
}

int64_t StateKeeper::due_ns() const noexcept {
  if (!is_on()) return base::never_ns;
  if (is_under_way_ || schedule_->epoch() != epoch_) return 0;
  const int64_t reason_ns = quotas_.has_changes() || schedule_->is_wanted() ? 0 : windows_.due_ns();
  return std::max(reason_ns, schedule_->due_ns());
}

void StateKeeper::add_statistics(ProcessStatistics& statistics, base::Now now) const noexcept {
  if (!is_on()) return;
  statistics.state = &schedule_->statistics();
  statistics.state_behind_ns = schedule_->behind_ns(now.monotonic_ns);
  statistics.state_is_committed = schedule_->is_committed();
}

// The writer has released the memory of the last cut: otherwise there would be no new epoch.
void StateKeeper::begin_cut() noexcept {
  epoch_ = schedule_->epoch();
  is_under_way_ = true;
  has_quotas_left_ = true;
  took_ns_ = 0;
  shares_count_ = 0;
  builder_->clear();
  const uint64_t rewrites = schedule_->statistics().rewrites_count.load(std::memory_order_relaxed);
  const bool writes_all = rewrites != rewrites_ || writes_all_;
  if (writes_all || schedule_->is_whole()) quotas_.write_all();
  rewrites_ = rewrites;
  writes_all_ = false;
  quotas_.begin_cut(*builder_, {.epoch = epoch_, .begins_lap = schedule_->begins_lap()});
  using Extent = WindowKeeper::Extent;
  Extent extent = schedule_->is_awaited() ? Extent::little : Extent::share;
  if (schedule_->is_last()) extent = Extent::changed;
  if (writes_all) extent = Extent::all;
  windows_.begin_cut(epoch_, extent, now_ns_);
}

void StateKeeper::hand_over(base::Now now) noexcept {
  const quota::CutFacts facts = quotas_.cut_facts();
  finish_parts(now, facts);
  if (const uint64_t count = builder_->records_count(); count >= record_bytes_count_min) {
    record_bytes_ = builder_->used_bytes() / count;
  }
  schedule_->note_handed_over(shard_, {.took_ns = cost_ns(),
                                       .complete_since = facts.complete_since_epoch,
                                       .alive_bytes = facts.alive_count * record_bytes_});
  schedule_->sink().hand_over(
      {.epoch = epoch_,
       .shard = shard_,
       .parts = views_.parts(),
       .records_count = builder_->records_count() + windows_.records_count(),
       .quota_classes = views_.quota_classes(),
       .quota_changes = views_.quota_changes(),
       .needed_from_epoch = facts.complete_since_epoch,
       .windows_needed_from_epoch = windows_.complete_since_epoch()});
}

// Of the whole cut: calls have written what they were about to change, and nobody took their time.
int64_t StateKeeper::cost_ns() const noexcept {
  const auto count = static_cast<int64_t>(builder_->records_count());
  if (shares_count_ < shares_count_min) return std::max(took_ns_, count * record_ns);
  return took_ns_ * count / static_cast<int64_t>(shares_count_);
}

// As it was when the turn began, whose time the records have: the processor may have been taken
// from this thread since. Otherwise limits would stand still for as long after the next start.
state::MachineTime StateKeeper::machine_time_of(base::Now now) const noexcept {
  constexpr int64_t turn_ns_max = base::ns_per_s;  // more: somebody has set the clock
  state::MachineTime time = options_.machine_time();
  const int64_t since_ns = time.wall_ns - now.wall_ns;
  if (since_ns < 0 || since_ns > turn_ns_max) return time;
  time.boot_ns -= since_ns;
  time.wall_ns -= since_ns;
  return time;
}

void StateKeeper::finish_parts(base::Now now, const quota::CutFacts& facts) noexcept {
  const state::PartHeader header{
      .epoch = epoch_,
      .shard = static_cast<uint16_t>(shard_),
      .shards = static_cast<uint16_t>(shards_),
      .time = {.state_ns = now.monotonic_ns, .machine = machine_time_of(now)},
      .calendar_wall_ns = facts.calendar_wall_ns,
      .order = facts.order,
      .reset_all_order = facts.reset_all_order,
      .file_tag = options_.file_tag};
  builder_->finish(header);
  windows_.finish(header);
  views_.take(*builder_);
  views_.add(state::PartKind::windows, windows_.parts());
}

}  // namespace sluice::server
