// Writing on a lane: which jobs may be sent now, and which thread writes them.
#include <algorithm>
#include <utility>

#include "io_thread.hpp"
#include "lane.hpp"

namespace sluicegate {

bool Lane::may_send() const noexcept {
  if (state_ != State::up || is_lost_ || is_draining_ || staged_.empty()) return false;
  if (in_flight_.empty()) return true;
  const Job& next = *staged_.front();
  const Welcome& allowed = link_->welcome();
  return in_flight_.size() < std::min<size_t>(next.window(), allowed.outstanding_frames_max) &&
         in_flight_bytes_ + next.frame_bytes() <= allowed.outstanding_bytes_max;
}

// Sends what may be sent, unless another thread is writing: that one checks again at the end.
void Lane::flush(Lock& lock) {
  if (is_writing_ || is_write_blocked_ || !may_send()) return;
  is_writing_ = true;
  bool all_written = true;
  std::string error;
  while (all_written && may_send()) {
    pick_outgoing();
    lock.unlock();
    try {
      all_written = write_outgoing();
    } catch (const Error& fault) {
      error = fault.what();
      all_written = false;
    }
    lock.lock();
    for (Job* job : outgoing_) job->is_being_written = false;
    outgoing_.clear();
    if (!unsent_.empty()) complete_unsent(lock);
  }
  is_writing_ = false;
  changed_.notify_all();
  if (!error.empty()) return lose(lock, error);
  if (all_written) return;
  is_write_blocked_ = true;
  io_.signal();
}

void Lane::pick_outgoing() {
  while (may_send()) {
    std::unique_ptr<Job> job = std::move(staged_.front());
    staged_.pop_front();
    if (!job->prepare()) {
      recycle(std::move(job));
      continue;
    }
    job->is_being_written = true;
    job->counted_bytes = job->frame_bytes();
    in_flight_bytes_ += job->counted_bytes;
    outgoing_.push_back(job.get());
    in_flight_.push_back(std::move(job));
  }
}

bool Lane::write_outgoing() {
  std::vector<uint64_t>& output = link_->output();
  for (Job* job : outgoing_) {
    const size_t begin = output.size();
    const bool is_encoded = job->encode(output);
    const size_t bytes = (output.size() - begin) * sizeof(uint64_t);
    if (is_encoded && bytes <= link_->welcome().frame_bytes_max) continue;
    output.resize(begin);
    unsent_.push_back(job->id);
  }
  return link_->write_some();
}

// Completes the jobs that could not be sent on this connection.
void Lane::complete_unsent(Lock& lock) {
  Finished finished;
  for (const uint64_t id : std::exchange(unsent_, {})) detach(id)->complete_unsent(finished);
  finish(lock, finished, 0);
}

void Lane::resume_writing(Lock& lock) {
  if (!is_write_blocked_ || is_writing_ || is_lost_) return;
  is_writing_ = true;
  lock.unlock();
  std::string error;
  bool all_written = false;
  try {
    all_written = link_->write_some();
  } catch (const Error& fault) {
    error = fault.what();
  }
  lock.lock();
  is_writing_ = false;
  changed_.notify_all();
  if (!error.empty()) return lose(lock, error);
  is_write_blocked_ = !all_written;
  flush(lock);
}

}  // namespace sluicegate
