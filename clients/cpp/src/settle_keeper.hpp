// Sends the settles of the book (kept_settles.hpp) until servers have taken them. Part of Client.
// Flow:   keep() after a call that failed, or send() instead of a call -> the I/O thread calls
//         repeat_due() -> frames of many settles, each to the lane that has its reservation -> the
//         answers go back to the book.
// Shape:  the frames count as no calls, so that repeats never take the room of callers.
// Threads: all of them; the lock guards the book, and no lane is used under it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "condition.hpp"
#include "kept_settles.hpp"
#include "platform.hpp"

namespace sluicegate {

class IoThread;
class LaneSet;

class SettleKeeper {
 public:
  using Clock = Platform::Clock;
  using LaneOf = std::function<uint32_t(const KeptSettle&)>;

  struct Parts {
    Platform& platform;
    const ClientOptions& options;
    LaneSet& lanes;
    IoThread& io;
    LaneOf lane_of;
  };

  explicit SettleKeeper(Parts parts);

  // ---------------------------------------------------------------------------- by callers
  // Keeps the settle of a call that failed; false: there is no room.
  bool keep(KeptSettle settle);
  // Sends one with the next frame, without a call; false: likewise.
  bool send(KeptSettle settle);
  void count_lost();
  void count_recorded();
  bool is_closed() const noexcept { return is_closed_; }
  SettleCounts counts();

  // Waits at most `settle_timeout` until no settle is kept.
  void drain();
  // Later settles find no room. All lanes are closed.
  void close();

  // ------------------------------------------------------------------------- by the I/O thread
  // Sends what is due; returns when something is due again.
  Clock::time_point repeat_due();

  // ------------------------------------------------------------------------------- by frames
  void answered(std::span<const KeptSettle> settles, const QuotaAnswers& answers,
                uint64_t instance_id);
  void unanswered(std::span<const KeptSettle> settles);
  void unsent(std::span<const KeptSettle> settles);
  void refused(std::span<const KeptSettle> settles);

 private:
  template <typename Change>
  auto change(Change change);
  void send_on(uint32_t lane, std::span<const KeptSettle> settles);

  const Parts parts_;
  std::mutex mutex_;
  Condition emptied_;
  KeptSettles book_;
  std::atomic<bool> is_idle_{true};  // nothing is due, and no thread has to ask the book
  std::atomic<bool> is_closed_{false};
};

}  // namespace sluicegate
