#include "store/state_writer.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace sluice::store {
namespace {

constexpr int niceness = 10;

// On Linux a thread has a priority of its own. Without it the writer only competes with workers.
void lower_priority() noexcept {
  static_cast<void>(::nice(niceness));
}

}  // namespace

StateWriter::StateWriter(std::unique_ptr<StateStore> store, StateWriterOptions options)
    : store_(std::move(store)),
      wake_(std::move(options.wake)),
      clock_(options.clock),
      committer_(*store_, statistics_, options.clock),
      collector_(options.shards_count),
      thread_([this] { run(); }) {}

StateWriter::~StateWriter() {
  static_cast<void>(stop(std::chrono::milliseconds(0)));
  thread_.join();
}

bool StateWriter::hand_over(const ShardCut& cut) noexcept {
  const std::lock_guard lock(mutex_);
  if (!accepts_) return false;
  if (collector_.add(cut)) changed_.notify_all();
  return true;
}

StateWriter::End StateWriter::stop(std::chrono::milliseconds timeout) {
  Lock lock(mutex_);
  accepts_ = false;
  const int64_t timeout_ns = std::chrono::nanoseconds(timeout).count();
  stop_deadline_ns_ = std::min(stop_deadline_ns_, clock_().monotonic_ns + timeout_ns);
  changed_.notify_all();
  if (!changed_.wait_for(lock, timeout + close_patience, [this] { return ended_; })) {
    return End::hanging;
  }
  return clean_ ? End::clean : End::unclean;
}

void StateWriter::run() noexcept {
  pthread_setname_np(pthread_self(), "state-writer");
  lower_priority();
  Lock lock(mutex_);
  while (wait_for_work(lock)) step(lock);
  close(lock);
}

// False: it is time to end.
bool StateWriter::wait_for_work(Lock& lock) {
  while (true) {
    const bool stops = stop_deadline_ns_ != base::never_ns;
    const int64_t now_ns = clock_().monotonic_ns;
    const bool gives_up = tries_last_ && now_ns >= stop_deadline_ns_;
    if (stops && (!collector_.is_complete() || gives_up)) return false;
    if (stops && !tries_last_) {
      tries_last_ = true;
      committer_.try_now();
    }
    const int64_t due_ns = committer_.due_ns(collector_.is_complete());
    if (due_ns <= now_ns) return true;
    const int64_t until_ns = std::min(due_ns, std::max(stop_deadline_ns_, now_ns));
    if (until_ns == base::never_ns) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(until_ns - now_ns));
    }
  }
}

void StateWriter::step(Lock& lock) {
  const bool has_batch = collector_.is_complete();
  const Batch batch = has_batch ? collector_.batch() : Batch{};
  const WriterStatus before = statistics_.status.load(std::memory_order_relaxed);
  lock.unlock();
  const EpochCommitter::Outcome outcome = committer_.step(has_batch ? &batch : nullptr);
  lock.lock();
  const WriterStatus status = statistics_.status.load(std::memory_order_relaxed);
  const bool committed = outcome == EpochCommitter::Outcome::committed;
  if (status == WriterStatus::failed) accepts_ = false;
  if (committed || status == WriterStatus::failed) release();
  if (!committed && status == before) return;
  lock.unlock();
  wake_();
  lock.lock();
}

// The cuts' memory is the workers' again.
void StateWriter::release() noexcept {
  if (collector_.epoch() != 0) {
    statistics_.released_epoch.store(collector_.epoch(), std::memory_order_release);
  }
  collector_.clear();
}

// Nothing is released before the status says that no epoch may begin: shards may be in the middle
// of the cut of this one.
void StateWriter::close(Lock& lock) {
  const bool whole = !collector_.is_complete();  // a whole batch could not be committed in time
  lock.unlock();
  const bool closed = committer_.close();
  lock.lock();
  release();
  lock.unlock();
  wake_();
  lock.lock();
  clean_ = closed && whole;
  ended_ = true;
  changed_.notify_all();
}

}  // namespace sluice::store
