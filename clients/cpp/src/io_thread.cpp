#include "io_thread.hpp"

#include <poll.h>

#include <utility>

#include "lane_set.hpp"

namespace sluicegate {
namespace {

using Clock = Waiter::Clock;

constexpr size_t posted_max = 65'536;

}  // namespace

IoThread::IoThread(Platform& platform)
    : platform_{platform}, event_fd_{platform.open_event()}, has_room_{platform} {}

IoThread::~IoThread() {
  platform_.close(event_fd_);
}

void IoThread::start(LaneSet& lanes, DoDue do_due) {
  thread_ = platform_.start([this, &lanes, do_due = std::move(do_due)] { run(lanes, do_due); });
}

void IoThread::stop() {
  {
    const std::lock_guard lock{mutex_};
    is_stopping_ = true;
  }
  has_room_.notify_all();
  signal();
  if (thread_.joinable()) platform_.join(thread_);
  {
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
  }
  run_posted();
}

void IoThread::signal() noexcept {
  if (!is_signalled_.exchange(true)) platform_.set_event(event_fd_);
}

void IoThread::post(FinishedEntry entry) {
  {
    std::unique_lock lock{mutex_};
    has_room_.wait(lock,
                   [this] { return posted_.size() < posted_max || is_current() || is_stopping_; });
    if (!is_stopped_) {
      posted_.push_back(std::move(entry));
      lock.unlock();
      return signal();
    }
  }
  entry.target.call_back(entry.outcome);
}

void IoThread::run_posted() {
  std::vector<FinishedEntry> now;
  {
    const std::lock_guard lock{mutex_};
    now.swap(posted_);
  }
  has_room_.notify_all();
  for (const FinishedEntry& each : now) each.target.call_back(each.outcome);
}

void IoThread::run(LaneSet& lanes, const DoDue& do_due) {
  id_ = std::this_thread::get_id();
  std::vector<pollfd> watched;
  while (!is_stopping_) {
    auto until = do_due();
    watched.assign(1, {.fd = event_fd_, .events = POLLIN, .revents = 0});
    for (uint32_t i = 0; i < lanes.count(); ++i) {
      watched.push_back(lanes[i].watch(until));
    }
    platform_.poll(watched, until == Clock::time_point::max() ? Platform::Deadline{} : until);
    if (watched[0].revents != 0) {
      platform_.clear_event(event_fd_);
      is_signalled_ = false;
    }
    for (uint32_t i = 1; i < watched.size(); ++i) lanes[i - 1].tend(watched[i].revents);
    run_posted();
  }
  id_ = std::thread::id{};  // another thread may have it after this one
}

}  // namespace sluicegate
