#include "io_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lane_set.hpp"

namespace sluicegate {
namespace {

using Clock = Waiter::Clock;

constexpr size_t posted_max = 65'536;

void wait_for_any(std::vector<pollfd>& watched, Clock::time_point until) {
  timespec timeout{};
  const bool is_limited = until != Clock::time_point::max();
  if (is_limited) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    timeout.tv_sec = std::chrono::floor<std::chrono::seconds>(left).count();
    timeout.tv_nsec = (left % std::chrono::seconds{1}).count();
  }
  if (ppoll(watched.data(), watched.size(), is_limited ? &timeout : nullptr, nullptr) < 0) {
    for (pollfd& each : watched) each.revents = 0;  // EINTR
  }
}

}  // namespace

IoThread::IoThread() : event_fd_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {
  if (event_fd_ < 0) throw Error(std::string{"eventfd failed: "} + std::strerror(errno));
}

IoThread::~IoThread() {
  close(event_fd_);
}

void IoThread::start(LaneSet& lanes) {
  thread_ = std::thread{[this, &lanes] { run(lanes); }};
}

void IoThread::stop() {
  {
    const std::lock_guard lock{mutex_};
    is_stopping_ = true;
  }
  has_room_.notify_all();
  signal();
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
  }
  run_posted();
}

void IoThread::signal() noexcept {
  if (is_signalled_.exchange(true)) return;
  const uint64_t one = 1;
  while (write(event_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void IoThread::read_signal() noexcept {
  uint64_t count = 0;
  while (read(event_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  is_signalled_ = false;
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
  entry.target.callback(entry.outcome);
}

void IoThread::run_posted() {
  std::vector<FinishedEntry> now;
  {
    const std::lock_guard lock{mutex_};
    now.swap(posted_);
  }
  has_room_.notify_all();
  for (const FinishedEntry& each : now) each.target.callback(each.outcome);
}

void IoThread::run(LaneSet& lanes) {
  id_ = std::this_thread::get_id();
  std::vector<pollfd> watched;
  while (!is_stopping_) {
    auto until = Clock::time_point::max();
    watched.assign(1, {.fd = event_fd_, .events = POLLIN, .revents = 0});
    for (uint32_t i = 0; i < lanes.count(); ++i) {
      watched.push_back(lanes[i].watch(until));
    }
    wait_for_any(watched, until);
    if (watched[0].revents != 0) read_signal();
    for (uint32_t i = 1; i < watched.size(); ++i) lanes[i - 1].tend(watched[i].revents);
    run_posted();
  }
  id_ = std::thread::id{};  // another thread may have it after this one
}

}  // namespace sluicegate
