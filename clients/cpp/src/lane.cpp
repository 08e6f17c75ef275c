// Adding calls to a lane, leaving and cancelling them, and losing and getting its connection.
#include "lane.hpp"

#include <algorithm>
#include <utility>

#include "connector.hpp"
#include "handle_table.hpp"
#include "io_thread.hpp"
#include "lane_set.hpp"

namespace sluicegate {
namespace {

constexpr size_t frame_bytes_max = 64 * 1024;  // of gathered calls, except for a single large key
constexpr size_t spare_max = 16;

}  // namespace

Lane::Lane(uint32_t index, const ClientOptions& options, Platform& platform, IoThread& io,
           Connector& connector)
    : index_{index},
      options_{options},
      platform_{platform},
      io_{io},
      connector_{connector},
      changed_{platform},
      room_{platform},
      next_id_{(uint64_t{index} << 40) + 1} {}

Lane::~Lane() = default;

std::string Lane::last_error() const {
  const std::lock_guard lock{mutex_};
  return last_error_;
}

size_t Lane::pending() const {
  const std::lock_guard lock{mutex_};
  return pending_;
}

Lane::Counts Lane::counts() const {
  const std::lock_guard lock{mutex_};
  return {.pending = pending_,
          .callbacks = callbacks_,
          .staged = staged_.size(),
          .in_flight = in_flight_.size(),
          .in_flight_bytes = in_flight_bytes_,
          .waiting = waiting_.size()};
}

// ------------------------------------------------------------------------------ adding calls

// The reason why the lane cannot take a call now.
std::optional<Failure> Lane::failure_now() {
  if (state_ == State::closed) return Failure::closed;
  if (state_ == State::retired) return Failure::unreachable;
  if (state_ == State::resting) {
    if (has_stand_in_) {
      connector_.notify();  // it moves the call
    } else if (!options_.requeue) {
      return Failure::unreachable;
    }
  }
  if (is_draining_) {
    if (!has_stand_in_) return Failure::draining;
    connector_.notify();
  }
  return std::nullopt;
}

template <typename AnyCall>
Ticket Lane::add_call(const AnyCall& call, Target target) {
  Lock lock{mutex_};
  const bool has_room = wait_for_room(lock, call.deadline, target);
  const auto failure = has_room ? failure_now() : Failure::overloaded;
  if (failure) {
    refuse(lock, std::move(target), *failure);
    return {};
  }
  const bool has_callback = target.waiter == nullptr;
  auto& frame = gathering(call);
  ++pending_;
  callbacks_ += target.callback ? 1 : 0;
  // A blocking caller watches its own deadline.
  const auto deadline = has_callback ? call.deadline : Clock::time_point::max();
  const uint32_t entry = frame.add(call, std::move(target), deadline);
  const Ticket ticket{.lane = index_, .entry = entry, .frame = frame.id};
  earliest_deadline_ = std::min(earliest_deadline_, deadline);
  flush(lock);
  const bool needs_reader = has_callback && leader_ == Leader::none && state_ == State::up;
  if (needs_reader || deadline < watched_until_) io_.signal();
  return ticket;
}

template Ticket Lane::add_call(const Call& call, Target target);
template Ticket Lane::add_call(const QuotaCall& call, Target target);

void Lane::send_detached(const QuotaCall& call) {
  Lock lock{mutex_};
  if (failure_now()) return;
  gathering(call).add(call, {}, call.deadline);
  earliest_deadline_ = std::min(earliest_deadline_, call.deadline);
  ++pending_;
  flush(lock);
  if ((leader_ == Leader::none && state_ == State::up) || call.deadline < watched_until_) {
    io_.signal();
  }
}

// False when there is no room and the caller may not wait for it, or waited until its deadline.
bool Lane::wait_for_room(Lock& lock, Clock::time_point deadline, const Target& target) {
  if (pending_ < options_.pending_max) return true;
  if (options_.when_full == WhenFull::refuse || io_.is_current()) return false;
  // Only the I/O thread reads for callers whose waiter is not listed yet.
  ++blocked_;
  io_.signal();
  const auto has_room = [&] { return pending_ < options_.pending_max || state_ == State::closed; };
  bool in_time = true;
  if (deadline == Clock::time_point::max() || target.callback) {
    room_.wait(lock, has_room);
  } else {
    in_time = room_.wait_until(lock, deadline, has_room);
  }
  --blocked_;
  return in_time;
}

// Completes a call that was not taken. The callback of an overloaded call runs here.
void Lane::refuse(Lock& lock, Target target, Failure failure) {
  const Decided outcome = outcome_of(failure, options_.on_failure);
  lock.unlock();
  target.note(outcome);
  if (target.waiter != nullptr) {
    target.waiter->complete(target.index, outcome);
  } else if (target.callback && failure == Failure::overloaded) {
    target.call_back(outcome);
  } else if (target.callback) {
    io_.post({std::move(target), outcome});
  }
}

// The frame that a call joins: the last staged one with the same terms and room, if the call may
// overtake all frames staged behind it.
template <typename AnyCall>
typename AnyCall::Frame& Lane::gathering(const AnyCall& call) {
  using Frame = typename AnyCall::Frame;
  const Gathered::Bounds bounds{options_.frame_entries_max, frame_bytes_max};
  for (auto job = staged_.rbegin(); job != staged_.rend(); ++job) {
    Gathered* there = (*job)->gathered();
    if (there == nullptr || !there->may_be_joined()) break;
    auto* frame = dynamic_cast<Frame*>(there);
    if (frame != nullptr && frame->has_room(call, bounds)) return *frame;
    if (!call.may_overtake(*there)) break;
  }
  auto frame = new_frame(call);
  Frame& added = *frame;
  stage(std::move(frame));
  return added;
}

std::unique_ptr<Calls> Lane::new_frame(const Call& first) {
  if (spare_.empty()) return std::make_unique<Calls>(options_, first);
  std::unique_ptr<Calls> calls = std::move(spare_.back());
  spare_.pop_back();
  calls->begin_anew(first);
  return calls;
}

std::unique_ptr<QuotaCalls> Lane::new_frame(const QuotaCall& first) {
  return std::make_unique<QuotaCalls>(options_, first);
}

void Lane::stage(std::unique_ptr<Job> job) {
  job->id = next_id_++;
  staged_.push_back(std::move(job));
}

// Releases permits, and cancels reservations, that were granted to callers who had left.
void Lane::release_unwanted(const Finished& finished) {
  constexpr auto never = Clock::time_point::max();
  for (const UnwantedGrant& each : finished.to_release) {
    ++pending_;
    if (each.reservation != 0) {
      const QuotaCall call{.kind = QuotaCall::Kind::cancel, .reservation = each.reservation};
      gathering(call).add(call, {}, never);
      continue;
    }
    const AcquireOptions options{.cost = each.cost};
    const Call call{.key = each.key, .options = options, .is_release = true};
    gathering(call).add(call, {}, never);
  }
}

void Lane::recycle(std::unique_ptr<Job> job) {
  auto* calls = dynamic_cast<Calls*>(job.get());
  if (calls == nullptr || spare_.size() >= spare_max) return;
  job.release();
  spare_.emplace_back(calls);
}

void Lane::add(std::vector<std::unique_ptr<Job>> jobs, Reader reader) {
  Lock lock{mutex_};
  pending_ += jobs.size();
  if (const auto failure = failure_now()) return fail(lock, std::move(jobs), *failure);
  for (auto& job : jobs) stage(std::move(job));
  flush(lock);
  if (reader == Reader::io && leader_ == Leader::none) io_.signal();
}

void Lane::add_own(std::unique_ptr<Job> job) {
  Lock lock{mutex_};
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(std::move(job));
  if (const auto failure = failure_now()) return fail(lock, std::move(jobs), *failure);
  stage(std::move(jobs.front()));
  earliest_deadline_ = {};  // to be found anew
  flush(lock);
  io_.signal();
}

// --------------------------------------------------------------------- leaving and cancelling

template <typename Visit>
void Lane::for_each_job(Visit visit) {
  for (const auto& job : staged_) visit(*job);
  for (const auto& job : in_flight_) visit(*job);
  for (const auto& [id, job] : waiting_) visit(*job);
}

template <typename Visit>
void Lane::for_each_other_lane(Visit visit) {
  LaneSet& lanes = connector_.lanes();
  for (uint32_t i = 0; i < lanes.count(); ++i) {
    if (i != index_) visit(lanes[i]);
  }
}

void Lane::leave(Waiter& waiter) {
  leave_here(waiter);
  if (has_moved_jobs_) for_each_other_lane([&](Lane& lane) { lane.leave_here(waiter); });
}

void Lane::leave_here(Waiter& waiter) {
  Lock lock{mutex_};
  changed_.wait(lock, [&] { return !is_writing_; });  // it may be reading the caller's keys
  std::vector<std::pair<uint64_t, Finished>> left;
  const auto leave_job = [&](Job& job) {
    Finished finished;
    const bool is_over = job.leave(waiter, finished);
    if (finished.calls > 0) left.emplace_back(job.id, std::move(finished));
    return is_over;
  };
  std::erase_if(staged_, [&](const auto& job) { return leave_job(*job); });
  for (const auto& job : in_flight_) leave_job(*job);
  for (const auto& [id, job] : waiting_) leave_job(*job);
  for (auto& [id, finished] : left) finish(lock, finished, id);
  flush(lock);
}

void Lane::cancel(const Ticket& ticket) {
  cancel_here(ticket);
  if (has_moved_jobs_) for_each_other_lane([&](Lane& lane) { lane.cancel_here(ticket); });
}

void Lane::cancel_here(const Ticket& ticket) {
  Lock lock{mutex_};
  Finished finished;
  for_each_job([&](Job& job) {
    if (job.id != ticket.frame) return;
    if (Gathered* frame = job.gathered()) frame->cancel(ticket.entry, finished);
  });
  finish(lock, finished, ticket.frame);
  flush(lock);
  if (leader_ == Leader::none) hand_on();
}

void Lane::expire(Lock& lock) {
  const auto now = platform_.now();
  if (now < earliest_deadline_) return;
  earliest_deadline_ = Clock::time_point::max();
  std::vector<std::pair<uint64_t, Finished>> expired;
  for_each_job([&](Job& job) {
    Finished finished;
    earliest_deadline_ = std::min(earliest_deadline_, job.expire(now, finished));
    if (finished.calls > 0) expired.emplace_back(job.id, std::move(finished));
  });
  std::erase_if(staged_, [](const auto& job) { return !job->has_open_entries(); });
  for (auto& [id, finished] : expired) finish(lock, finished, id);
  flush(lock);
}

// True once for a link that was lost before the server answered anything.
bool Lane::take_unproven_loss() {
  const std::lock_guard lock{mutex_};
  return is_lost_ && state_ == State::connecting && !std::exchange(is_proven_, true);
}

// ---------------------------------------------------------------------------------- I/O thread

pollfd Lane::watch(Clock::time_point& until) {
  const Lock lock{mutex_};
  watched_until_ = earliest_deadline_;
  until = std::min(until, earliest_deadline_);
  if (state_ != State::up || is_lost_) {
    if (leader_ == Leader::io) leader_ = Leader::none;
    changed_.notify_all();
    is_watched_ = false;
    return {.fd = -1, .events = 0, .revents = 0};
  }
  Waiter* caller = candidate();
  if (leader_ == Leader::io && (caller != nullptr || !wants_io_leader())) {
    leader_ = Leader::none;
    if (caller != nullptr) caller->poke();
  } else if (leader_ == Leader::none && wants_io_leader() && caller == nullptr) {
    leader_ = Leader::io;
  }
  // POLLRDHUP reports an idle connection that the server closes before a call uses it.
  int events = leader_ == Leader::io ? POLLIN : leader_ == Leader::none ? POLLRDHUP : 0;
  if (is_write_blocked_) events |= POLLOUT;
  is_watched_ = events != 0;
  return {
      .fd = is_watched_ ? link_->socket() : -1, .events = static_cast<short>(events), .revents = 0};
}

void Lane::tend(short events) {
  Lock lock{mutex_};
  if ((events & POLLOUT) != 0) resume_writing(lock);
  const bool is_idle = leader_ == Leader::none && state_ == State::up && !is_lost_;
  if (is_idle && (events & (POLLRDHUP | POLLHUP | POLLERR)) != 0) leader_ = Leader::io;
  if (leader_ == Leader::io && (events & ~POLLOUT) != 0 && !is_lost_) read_answers(lock);
  expire(lock);
}

// ------------------------------------------------------------------------- losing and finding

// Completes the sent calls, or stages them to be sent again. The link stays until no thread uses
// it.
void Lane::lose(Lock& lock, const std::string& why) {
  if (is_lost_ || link_ == nullptr) return;
  is_lost_ = true;
  held_tag_ = 0;
  last_error_ = why;
  link_->shut_down();
  changed_.wait(lock, [&] { return !is_writing_; });
  is_write_blocked_ = false;
  const Failure failure = is_draining_ ? Failure::draining : Failure::connection_lost;
  if (state_ == State::up) state_ = State::connecting;
  auto sent = take_sent();
  // A withdrawal refers to a frame of the lost connection.
  std::erase_if(staged_, [](const auto& job) { return job->dies_with_link(); });
  if (options_.requeue && state_ == State::connecting) {
    const auto repeated = std::stable_partition(
        sent.begin(), sent.end(), [](const auto& job) { return !job->begin_repeat(); });
    staged_.insert(staged_.begin(), std::make_move_iterator(repeated),
                   std::make_move_iterator(sent.end()));
    sent.erase(repeated, sent.end());
  }
  is_draining_ = has_stand_in_ = false;
  connector_.notify();
  fail(lock, std::move(sent), failure);
}

// All jobs that were sent, in the order of their ids.
std::vector<std::unique_ptr<Job>> Lane::take_sent() {
  std::vector<std::unique_ptr<Job>> sent = std::exchange(in_flight_, {});
  for (auto& [id, job] : waiting_) sent.push_back(std::move(job));
  waiting_.clear();
  in_flight_bytes_ = 0;
  std::sort(sent.begin(), sent.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return sent;
}

std::vector<std::unique_ptr<Job>> Lane::take_staged() {
  std::vector<std::unique_ptr<Job>> staged{std::make_move_iterator(staged_.begin()),
                                           std::make_move_iterator(staged_.end())};
  staged_.clear();
  return staged;
}

void Lane::fail(Lock& lock, std::vector<std::unique_ptr<Job>> jobs, Failure failure) {
  Finished finished;
  for (const auto& job : jobs) job->fail(failure, finished);
  finish(lock, finished, 0);
}

bool Lane::needs_link() const {
  const std::lock_guard lock{mutex_};
  return state_ != State::up && state_ != State::closed;
}

bool Lane::is_draining() const {
  const std::lock_guard lock{mutex_};
  return is_draining_;
}

void Lane::begin_attempt() {
  const std::lock_guard lock{mutex_};
  if (state_ == State::resting || state_ == State::retired) state_ = State::connecting;
}

uint32_t Lane::next_link_tag() const {
  const std::lock_guard lock{mutex_};
  return sluicegate::link_tag(index_, generation_ + 1);
}

void Lane::install(std::unique_ptr<Link> link) {
  Lock lock{mutex_};
  changed_.wait(lock, [&] { return !is_writing_ && leader_ == Leader::none; });
  if (state_ == State::closed) return;
  link_ = std::move(link);
  link_->forget_stop();
  link_tag_ = sluicegate::link_tag(index_, ++generation_);
  held_tag_ = link_tag_;
  is_lost_ = false;
  is_proven_ = false;
  has_stand_in_ = false;
  state_ = State::up;
  flush(lock);
  hand_on();
  io_.signal();
}

void Lane::rest(const std::string& why) {
  Lock lock{mutex_};
  if (is_draining_) {
    has_stand_in_ = false;
    return fail(lock, take_staged(), Failure::draining);
  }
  if (state_ != State::connecting) return;
  state_ = State::resting;
  has_stand_in_ = false;
  last_error_ = why;
  if (options_.requeue) return;  // calls wait for the next attempt, or for their time-out
  fail(lock, take_staged(), Failure::unreachable);
}

void Lane::rest(const std::string& why, Lane& stand_in) {
  {
    const Lock lock{mutex_};
    if (state_ != State::connecting) return;
    state_ = State::resting;
    has_stand_in_ = true;
    last_error_ = why;
  }
  hand_over(stand_in);
}

void Lane::hand_over(Lane& stand_in) {
  Lock lock{mutex_, std::defer_lock};
  Lock other{stand_in.mutex_, std::defer_lock};
  std::lock(lock, other);  // two lanes may stand in for each other, one after the other
  if ((state_ != State::resting && !is_draining_) || staged_.empty()) return;
  Finished finished;
  move_staged(stand_in, finished);
  other.unlock();
  if (blocked_ > 0) room_.notify_all();
  finish(lock, finished, 0);
  lock.unlock();
  other.lock();
  stand_in.flush(other);
  io_.signal();
}

// With both locks: who leaves or cancels a call finds it on one of the lanes.
void Lane::move_staged(Lane& to, Finished& finished) {
  has_moved_jobs_ = true;
  for (std::unique_ptr<Job>& job : take_staged()) {
    if (job->dies_with_link()) continue;
    if (!job->may_move()) {
      job->complete_unmoved(finished);
      continue;
    }
    job->note_moved(to.link_tag_);
    const size_t calls = job->open_calls();
    const size_t callbacks = job->open_callbacks();
    pending_ -= calls;
    callbacks_ -= callbacks;
    to.pending_ += calls;
    to.callbacks_ += callbacks;
    to.staged_.push_back(std::move(job));
  }
  to.earliest_deadline_ = {};  // to be found anew
}

void Lane::retire() {
  Lock lock{mutex_};
  if (state_ == State::up || state_ == State::closed) return;
  state_ = State::retired;
  last_error_ = "the server has fewer shards than before";
  fail(lock, take_staged(), Failure::unreachable);
}

void Lane::close() {
  Lock lock{mutex_};
  if (state_ == State::closed) return;
  state_ = State::closed;
  last_error_ = "the client was closed";
  room_.notify_all();
  if (link_ != nullptr) link_->shut_down();
  is_lost_ = true;
  held_tag_ = 0;
  // A caller that leads first completes the answers it has read.
  changed_.wait(lock, [&] { return !is_writing_ && leader_ != Leader::caller; });
  auto jobs = take_sent();
  for (auto& job : take_staged()) jobs.push_back(std::move(job));
  fail(lock, std::move(jobs), Failure::closed);
  io_.signal();
}

}  // namespace sluicegate
