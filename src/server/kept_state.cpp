#include "server/kept_state.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "io/clock.hpp"
#include "log/log.hpp"
#include "server/machine_clock.hpp"
#include "server/part_damage.hpp"

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds commit_check_pause{2};

int64_t monotonic_ns() noexcept {
  return io::read_clock_ns(CLOCK_MONOTONIC);
}

std::unique_ptr<store::StateFile> open_file(const std::string& path) {
  auto file = store::StateFile::open({.path = path, .verify = find_damage});
  if (!file) throw std::runtime_error("--state " + file.error().text);
  return std::move(*file);
}

}  // namespace

KeptState::KeptState(const KeptStateOptions& options)
    : path_(options.path), wake_(options.wake), seeds_(options.seeds), boot_(read_boot_id()) {
  std::unique_ptr<store::StateFile> file = open_file(path_);
  is_new_ = file->is_new();
  last_epoch_ = file->last_epoch();
  stored_ = std::make_unique<StoredFile>(path_);
  stored_shards_ = stored_->shards_count();
  seeds_ = stored_->seeds().value_or(options.seeds);
  start_ = state::start_state_clock(stored_->last_time(), read_machine_time(boot_), monotonic_ns());
  set_meta(*file, seeds_, options.shards);
  writer_ = std::make_unique<store::StateWriter>(
      std::move(file),
      store::StateWriterOptions{.shards_count = options.shards, .wake = options.wake});
  schedule_ = std::make_unique<CutSchedule>(
      *writer_, CutScheduleOptions{.shards = options.shards,
                                   .interval_ns = options.sync_ms * base::ns_per_ms,
                                   .last_epoch = last_epoch_});
}

StateOptions KeptState::options() noexcept {
  return {.schedule = schedule_.get(),
          .source = stored_shards_ > 0 ? stored_.get() : nullptr,
          .stored_shards = stored_shards_,
          .file_tag = tag_of(seeds_),
          .machine_time = [boot = boot_] { return read_machine_time(boot); },
          .cpu_ns = [] { return io::read_clock_ns(CLOCK_THREAD_CPUTIME_ID); }};
}

void KeptState::has_started(const quota::Restored& restored, const RestoredWindows& windows) {
  stored_.reset();
  log_start(restored, windows);
}

void KeptState::log_start(const quota::Restored& restored, const RestoredWindows& windows) const {
  if (const std::string warning = state::clock_warning(start_); !warning.empty()) {
    log::warning(warning, {{"state", path_}});
  }
  log::info(is_new_ ? "state: a new file" : "state: restored",
            {{"state", path_},
             {"epoch", last_epoch_},
             {"downtimeMillis", base::floor_ms(start_.downtime_ns)},
             {"shardsBefore", stored_shards_},
             {"subjects", restored.subjects},
             {"reservations", restored.reservations},
             {"endedReservations", restored.ends},
             {"windows", windows.count}});
  if (restored.subjects_of_other_nodes > 0) {
    log::warning(
        "state: other instances of --instance-urls own some of the subjects now: their usage was "
        "left out, and begins anew at their owners",
        {{"subjects", restored.subjects_of_other_nodes}});
  }
  if (windows.of_other_nodes > 0) {
    log::warning(
        "state: other instances of --instance-urls own some of the keys now: their windows were "
        "left out, and begin anew at their owners",
        {{"windows", windows.of_other_nodes}});
  }
  if (restored.subjects_left_out + restored.reservations_left_out + windows.left_out == 0) return;
  log::warning(
      "state: there was no room for all: what was left out has no limit and no usage now: start "
      "with a larger --max-subjects, --max-key-bytes, --max-reservations or --max-keys and a "
      "backup of the file",
      {{"subjects", restored.subjects_left_out},
       {"reservations", restored.reservations_left_out},
       {"windows", windows.left_out}});
}

store::StateWriter::End KeptState::stop(std::chrono::milliseconds timeout) {
  using End = store::StateWriter::End;
  const int64_t until_ns = monotonic_ns() + timeout.count() * base::ns_per_ms;
  const uint64_t epoch = schedule_->end_lap();
  schedule_->want(epoch);
  wake_();
  wait_committed(epoch, until_ns);
  const int64_t left_ms = base::floor_ms(std::max<int64_t>(until_ns - monotonic_ns(), 0));
  const End end = writer_->stop(std::chrono::milliseconds(left_ms));
  if (end == End::clean && !schedule_->statistics().is_durable(epoch)) return End::unclean;
  return end;
}

void KeptState::wait_committed(uint64_t epoch, int64_t until_ns) const {
  const store::WriterStatistics& statistics = schedule_->statistics();
  while (!statistics.is_durable(epoch) && monotonic_ns() < until_ns) {
    if (statistics.status.load(std::memory_order_relaxed) == store::WriterStatus::failed) return;
    std::this_thread::sleep_for(commit_check_pause);
  }
}

}  // namespace sluice::server
