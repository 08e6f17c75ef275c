// Reading on a lane: choosing the leader, applying answers, and completing calls.
#include <algorithm>
#include <utility>

#include "connector.hpp"
#include "io_thread.hpp"
#include "lane.hpp"

namespace sluicegate {

bool Lane::may_lead(const Waiter& waiter) const noexcept {
  return leader_ == Leader::none && callbacks_ == 0 && state_ == State::up && !is_lost_ &&
         waiter.may_lead();
}

void Lane::await(Waiter& waiter, Deadline deadline) {
  if (waiter.is_done()) return;
  Lock lock{mutex_};
  waiter.next = waiters_;
  if (waiters_ != nullptr) waiters_->previous = &waiter;
  waiters_ = &waiter;
  waiter.is_listed.store(true, std::memory_order_relaxed);
  while (!waiter.is_done()) {
    if (deadline && platform_.now() >= *deadline) {
      lock.unlock();
      leave(waiter);
      lock.lock();
      deadline.reset();
      if (has_moved_jobs_) deadline = platform_.now() + moving_time;
    } else if (may_lead(waiter)) {
      lead(lock, waiter, deadline);
    } else {
      lock.unlock();
      waiter.wait_until(deadline);
      lock.lock();
    }
  }
  if (waiter.next != nullptr) waiter.next->previous = waiter.previous;
  (waiter.previous != nullptr ? waiter.previous->next : waiters_) = waiter.next;
  if (leader_ == Leader::none) hand_on();
}

// Reads for all callers until the waiter's own answer has arrived, or the server has queued it, or
// calls with callbacks were added, for which the I/O thread reads.
void Lane::lead(Lock& lock, Waiter& waiter, Deadline deadline) {
  leader_ = Leader::caller;
  while (!waiter.is_done() && waiter.may_lead() && callbacks_ == 0 && !is_lost_) {
    lock.unlock();
    bool is_ready = false;
    std::string error;
    try {
      is_ready = link_->poll_until(POLLIN, deadline);
    } catch (const Error& fault) {
      error = fault.what();
    }
    lock.lock();
    if (!error.empty()) lose(lock, error);
    if (!is_ready) break;
    read_answers(lock);
  }
  leader_ = Leader::none;
  changed_.notify_all();
  if (!waiter.is_done()) hand_on();  // else await() hands on
}

// Finds the next leader: a caller that waits, or else the I/O thread.
void Lane::hand_on() {
  if (state_ != State::up || is_lost_) return;
  if (Waiter* next = candidate()) return next->poke();
  if (wants_io_leader() || !is_watched_) io_.signal();
}

void Lane::find_reader() {
  const Lock lock{mutex_};
  if (leader_ == Leader::none) hand_on();
}

// A caller that may lead. While callbacks are open, the I/O thread leads, because it runs them.
Waiter* Lane::candidate() const noexcept {
  if (callbacks_ > 0) return nullptr;
  Waiter* each = waiters_;
  while (each != nullptr && (!each->may_lead() || each->is_done())) each = each->next;
  return each;
}

bool Lane::wants_io_leader() const noexcept {
  return !in_flight_.empty() || !waiting_.empty();
}

// Reads what the socket holds and applies it. Called by the leader only.
void Lane::read_answers(Lock& lock) {
  std::string error;
  lock.unlock();
  try {
    if (link_->read_some()) {
      while (const auto frame = link_->next_frame()) {
        const Answer answer = decode(*frame);
        lock.lock();
        settle(lock, answer);
        lock.unlock();
      }
    }
  } catch (const Error& fault) {
    error = fault.what();
  }
  if (!lock.owns_lock()) lock.lock();
  if (!error.empty()) return lose(lock, error);
  flush(lock);
}

// Throws for answers that end the connection.
void Lane::settle(Lock& lock, const Answer& answer) {
  if (std::holds_alternative<GoAway>(answer)) return go_away(lock);
  const uint64_t id = id_of(answer);
  if (id == 0) return take_report(answer);
  note_answer();
  if (find(id) == nullptr) {
    throw ProtocolError("the server answered a frame that the client did not send");
  }
  // The answer may arrive before the writing thread has noted that the frame is written.
  changed_.wait(lock, [&] {
    const Job* job = find(id);
    return job == nullptr || !job->is_being_written;
  });
  const Job* job = find(id);
  if (job == nullptr) return;  // the connection was lost meanwhile, which completed the job
  if (job->will_wait(answer)) return settle_waiting(lock, answer, id);
  std::unique_ptr<Job> detached = detach(id);
  thread_local Finished finished;
  finished.clear();
  finished.instance_id = link_->welcome().instance_id;
  lock.unlock();
  try {
    detached->take(answer, finished);
  } catch (...) {
    detached->fail(Failure::connection_lost, finished);
    lock.lock();
    finish(lock, finished, id);
    throw;
  }
  lock.lock();
  finish(lock, finished, id);
  recycle(std::move(detached));
}

// What no request of this lane has asked for.
void Lane::take_report(const Answer& answer) {
  const auto* nodes = std::get_if<Topology>(&answer);
  if (nodes == nullptr) throw_unexpected(answer);
  connector_.note_nodes(*nodes);
}

// A server that only sends Welcome is no better than none: only answers reset the backoff.
void Lane::note_answer() {
  if (std::exchange(is_proven_, true)) return;
  connector_.note_answer();
}

// The frame stays, and other threads may cancel or leave entries of it: hence under the lock.
void Lane::settle_waiting(Lock& lock, const Answer& answer, uint64_t id) {
  if (!waiting_.contains(id)) waiting_.emplace(id, detach(id));
  Gathered& calls = *waiting_.at(id)->gathered();
  Finished finished;
  finished.instance_id = link_->welcome().instance_id;
  try {
    calls.take(answer, finished);
  } catch (...) {
    finish(lock, finished, id);
    throw;  // lose() completes its other entries
  }
  std::unique_ptr<Job> complete;
  if (calls.left() == 0) complete = detach(id);
  finish(lock, finished, id);
  if (complete) recycle(std::move(complete));
}

Job* Lane::find(uint64_t id) noexcept {
  if (const auto found = waiting_.find(id); found != waiting_.end()) return found->second.get();
  for (const auto& job : in_flight_) {
    if (job->id == id) return job.get();
  }
  return nullptr;
}

std::unique_ptr<Job> Lane::detach(uint64_t id) {
  if (const auto found = waiting_.find(id); found != waiting_.end()) {
    auto job = std::move(found->second);
    waiting_.erase(found);
    return job;
  }
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [id](const auto& job) { return job->id == id; });
  auto job = std::move(*found);
  in_flight_.erase(found);
  in_flight_bytes_ -= job->counted_bytes;
  return job;
}

// Completes the entries, then stages withdrawals and releases; callbacks run on the I/O thread
// only.
void Lane::finish(Lock& lock, Finished& finished, uint64_t id) {
  pending_ -= finished.calls;
  callbacks_ -= finished.callbacks;
  if (blocked_ > 0) room_.notify_all();
  lock.unlock();
  const bool on_io = io_.is_current();
  for (FinishedEntry& each : finished.entries) {
    if (each.target.waiter != nullptr) {
      each.target.waiter->complete(each.target.index, each.outcome);
    } else if (each.target.callback && on_io) {
      each.target.call_back(each.outcome);
    } else if (each.target.callback) {
      io_.post(std::move(each));
    }
  }
  lock.lock();
  if (state_ == State::closed) return;
  if (!finished.to_withdraw.empty()) {
    stage(std::make_unique<Question>(
        options_.on_failure, [target = id, entries = std::move(finished.to_withdraw)](
                                 uint64_t own_id, std::vector<uint64_t>& out) {
          encode(own_id, Withdraw{.target = target, .entries = entries}, out);
        }));
  }
  release_unwanted(finished);
}

// Of several nodes another one can be asked from now on; it also gets what was not sent here.
void Lane::go_away(Lock& lock) {
  is_draining_ = true;
  held_tag_ = 0;
  has_stand_in_ = connector_.has_fleet();
  connector_.notify();
  if (!has_stand_in_) fail(lock, take_staged(), Failure::draining);
}

}  // namespace sluicegate
