// The thread that does what no blocking caller does: it reads answers for callbacks, writes the
// bytes that a socket did not take at once, watches idle connections and time-outs, repeats
// kept settles, and renews reservations. Part of Client.
// Shape:  one poll() over a wake-up and the socket of every lane.
// Bounds: post() waits while 65,536 callbacks are posted and not called.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "condition.hpp"
#include "job.hpp"

namespace sluicegate {

class LaneSet;

class IoThread {
 public:
  explicit IoThread(Platform& platform);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Does what is due, before the thread checks the lanes; returns when something is due again.
  using DoDue = std::function<Platform::Clock::time_point()>;
  void start(LaneSet& lanes, DoDue do_due);
  // Ends the thread, and calls the posted callbacks. No lane may need it any more.
  void stop();
  // Calls the posted callbacks, on the current thread.
  void run_posted();

  // Makes it check all lanes again.
  void signal() noexcept;
  // Posts a callback whose outcome another thread received. After stop() it is called at once.
  void post(FinishedEntry entry);
  bool is_current() const noexcept { return std::this_thread::get_id() == id_; }

 private:
  void run(LaneSet& lanes, const DoDue& do_due);

  Platform& platform_;
  int event_fd_;
  std::atomic<bool> is_signalled_{false};
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  Condition has_room_;
  std::vector<FinishedEntry> posted_;
  bool is_stopped_ = false;
  std::atomic<std::thread::id> id_;
  std::thread thread_;
};

}  // namespace sluicegate
