#include "store/epoch_committer.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "log/log.hpp"

namespace sluice::store {

static_assert(failure_kinds_count <= 32, "a bit for each kind");

void RetryPause::failed(int64_t now_ns) noexcept {
  pause_ns_ = std::clamp(2 * pause_ns_, retry_pause_ns_min, retry_pause_ns_max);
  due_ns_ = now_ns + pause_ns_;
}

EpochCommitter::EpochCommitter(StateStore& store, WriterStatistics& statistics, Clock clock)
    : store_(store), statistics_(statistics), clock_(std::move(clock)) {
  statistics_.file_bytes.store(store.size().file_bytes, std::memory_order_relaxed);
  statistics_.log_bytes.store(store.size().log_bytes, std::memory_order_relaxed);
}

WriterStatus EpochCommitter::status() const noexcept {
  return statistics_.status.load(std::memory_order_relaxed);
}

int64_t EpochCommitter::due_ns(bool has_batch) const noexcept {
  if (status() == WriterStatus::failed) return base::never_ns;
  if (must_reopen_) return commit_pause_.due_ns();  // nothing works before that
  int64_t due_ns = base::never_ns;
  if (has_batch) due_ns = commit_pause_.due_ns();
  if (tidy_pause_.is_failing()) due_ns = std::min(due_ns, tidy_pause_.due_ns());
  return due_ns;
}

EpochCommitter::Outcome EpochCommitter::step(const Batch* batch) {
  if (status() == WriterStatus::failed) return Outcome::failed;
  Outcome outcome = Outcome::idle;
  if (batch != nullptr || must_reopen_) outcome = reopen_and_commit(batch);
  const bool may_tidy = outcome == Outcome::committed || tidy_pause_.is_failing();
  if (may_tidy && !must_reopen_ && status() != WriterStatus::failed) tidy();
  report_recovery();
  return outcome;
}

EpochCommitter::Outcome EpochCommitter::reopen_and_commit(const Batch* batch) {
  if (now_ns() < commit_pause_.due_ns()) return Outcome::waiting;
  const uint64_t epoch =
      batch != nullptr ? batch->epoch : statistics_.committed_epoch.load(std::memory_order_relaxed);
  Result<void> done;
  if (must_reopen_) done = store_.reopen();
  if (done) must_reopen_ = false;
  const int64_t begin_ns = now_ns();
  if (done && batch != nullptr) done = commit(*batch);
  if (!done) {
    fail(done.error(), epoch, commit_pause_);
    return status() == WriterStatus::failed ? Outcome::failed : Outcome::waiting;
  }
  commit_pause_.worked();
  if (batch == nullptr) return Outcome::idle;
  publish(*batch, now_ns() - begin_ns);
  return Outcome::committed;
}

// A lap that began before an fsync failed is no reason to delete what is older: the disk may lack
// parts of it.
uint64_t EpochCommitter::allowed(uint64_t delete_before, uint64_t deleted_before) const noexcept {
  return delete_before > distrusted_epoch_ && delete_before > deleted_before ? delete_before : 0;
}

Result<void> EpochCommitter::commit(const Batch& batch) {
  Batch own = batch;
  own.delete_before_epoch = allowed(batch.delete_before_epoch, deleted_before_epoch_);
  own.delete_windows_before_epoch =
      allowed(batch.delete_windows_before_epoch, deleted_windows_before_epoch_);
  Result<void> done = store_.commit(own);
  if (!done) return done;
  deleted_before_epoch_ = std::max(deleted_before_epoch_, own.delete_before_epoch);
  deleted_windows_before_epoch_ =
      std::max(deleted_windows_before_epoch_, own.delete_windows_before_epoch);
  return done;
}

void EpochCommitter::publish(const Batch& batch, int64_t took_ns) {
  uint64_t records = 0;
  for (const ShardCut& cut : batch.cuts) records += cut.records_count;
  const StoreSize size = store_.size();
  statistics_.commits_count.fetch_add(1, std::memory_order_relaxed);
  statistics_.commits_ns.fetch_add(static_cast<uint64_t>(took_ns), std::memory_order_relaxed);
  statistics_.records_count.fetch_add(records, std::memory_order_relaxed);
  statistics_.file_bytes.store(size.file_bytes, std::memory_order_relaxed);
  statistics_.log_bytes.store(size.log_bytes, std::memory_order_relaxed);
  statistics_.committed_epoch.store(batch.epoch, std::memory_order_release);
}

void EpochCommitter::tidy() {
  if (now_ns() < tidy_pause_.due_ns()) return;
  const Result<void> done = store_.tidy();
  if (done) {
    tidy_pause_.worked();
    return;
  }
  fail(done.error(), statistics_.committed_epoch.load(std::memory_order_relaxed), tidy_pause_);
}

void EpochCommitter::fail(const Failure& failure, uint64_t epoch, RetryPause& pause) {
  statistics_.failures[static_cast<size_t>(failure.kind)].fetch_add(1, std::memory_order_relaxed);
  if (is_final(failure.kind)) {
    statistics_.status.store(WriterStatus::failed, std::memory_order_relaxed);
    log::error("the state is no longer written: " + failure.text,
               {{"kind", failure_name(failure.kind)}, {"epoch", epoch}});
    return;
  }
  if (failure.kind == FailureKind::fsync) {
    must_reopen_ = true;
    distrusted_epoch_ = std::max(distrusted_epoch_, epoch);
    statistics_.rewrites_count.fetch_add(1, std::memory_order_relaxed);
  }
  pause.failed(now_ns());
  statistics_.status.store(WriterStatus::failing, std::memory_order_relaxed);
  report_failure(failure, epoch);
}

void EpochCommitter::report_failure(const Failure& failure, uint64_t epoch) {
  const uint32_t bit = uint32_t{1} << static_cast<uint32_t>(failure.kind);
  if (reported_kinds_ == 0) outage_begin_ns_ = now_ns();
  if ((reported_kinds_ & bit) != 0) return;
  reported_kinds_ |= bit;
  log::error("the state is not written for now: " + failure.text,
             {{"kind", failure_name(failure.kind)}, {"epoch", epoch}});
}

void EpochCommitter::report_recovery() {
  if (status() != WriterStatus::failing) return;
  if (must_reopen_ || commit_pause_.is_failing() || tidy_pause_.is_failing()) return;
  statistics_.status.store(WriterStatus::running, std::memory_order_relaxed);
  reported_kinds_ = 0;
  log::info("the state is written again",
            {{"epoch", statistics_.committed_epoch.load(std::memory_order_relaxed)},
             {"after_ms", base::floor_ms(now_ns() - outage_begin_ns_)}});
}

// A damaged or moved file is left as it is.
bool EpochCommitter::close() {
  if (status() == WriterStatus::failed) return false;
  const Result<void> done = store_.close();
  statistics_.status.store(WriterStatus::stopped, std::memory_order_relaxed);
  if (done) return true;
  log::error("the state file was not closed; what was committed is there: " + done.error().text,
             {{"kind", failure_name(done.error().kind)}});
  return false;
}

}  // namespace sluice::store
