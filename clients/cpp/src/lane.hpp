// One connection of a client, the calls that it carries, and the choice of the thread that reads.
// Part of Client.
// Flow:   calls -> staged -> in flight -> (in the server's queues) -> Finished
// Shape:  the thread that adds a call also writes, unless another thread is writing or the window
//         is full: then calls gather until an answer makes room. One leader at a time reads: a
//         blocking caller while it waits for its own answer, the I/O thread for everything else.
//         A leader completes the calls of all threads, then hands on.
// States: connecting (calls are staged), up, resting after a failed attempt (calls fail at once, or
//         are staged where they are sent again), retired when the server has no shard for it,
//         closed.
// Bounds: `pending_max` calls that are not complete; the server's bounds for frames in flight.
// Threads: the lock guards everything but encoding and the socket, which belong to the writing
//         thread and the leader.
#pragma once

#include <poll.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "calls.hpp"
#include "condition.hpp"
#include "quota_calls.hpp"
#include "sluicegate/link.hpp"
#include "waiter.hpp"

namespace sluicegate {

class Connector;
class IoThread;

class Lane {
 public:
  using Clock = Waiter::Clock;
  using Deadline = Platform::Deadline;
  using Lock = std::unique_lock<std::mutex>;

  Lane(uint32_t index, const ClientOptions& options, Platform& platform, IoThread& io,
       Connector& connector);
  ~Lane();

  // ---------------------------------------------------------------------------- by callers
  // Adds a call; its outcome may have arrived when this returns. If the target has a waiter, the
  // caller calls await() next.
  Ticket add(const Call& call, Target target) { return add_call(call, std::move(target)); }
  Ticket add(const QuotaCall& call, Target target) { return add_call(call, std::move(target)); }
  // Sends a call without a target, even above `pending_max`, and never blocks.
  void send_detached(const QuotaCall& call);
  // Adds the parts of a batch, or a question. `reader`: the thread that reads if none does yet.
  enum class Reader : uint8_t { caller, io };
  void add(std::vector<std::unique_ptr<Job>> jobs, Reader reader);
  // Adds a frame that belongs to no call, also above `pending_max`; never blocks.
  void add_own(std::unique_ptr<Job> job);
  // Blocks until the waiter is done; at the deadline, completes its entries here as timed out.
  void await(Waiter& waiter, Deadline deadline);
  // Makes sure that a thread reads, for calls whose caller does not call await().
  void find_reader();
  // Completes the waiter's entries here as timed out.
  void leave(Waiter& waiter);
  void cancel(const Ticket& ticket);
  // How long a call may be on its way to another lane: who leaves it then finds it after that.
  static constexpr std::chrono::milliseconds moving_time{10};

  // Of the current connection, for handle slots; 0 without one.
  const uint32_t& link_tag() const noexcept { return link_tag_; }
  bool holds(uint32_t tag) const noexcept { return tag != 0 && held_tag_.load() == tag; }
  std::string last_error() const;
  size_t pending() const;
  // All zero when no call is open.
  struct Counts {
    size_t pending = 0;
    size_t callbacks = 0;
    size_t staged = 0;
    size_t in_flight = 0;
    size_t in_flight_bytes = 0;
    size_t waiting = 0;  // frames with entries in the server's queues
    bool operator==(const Counts&) const = default;
  };
  Counts counts() const;
  // Calls that were added here may be on other lanes.
  bool has_moved_jobs() const noexcept { return has_moved_jobs_; }
  bool is_connected() const noexcept { return held_tag_.load() != 0; }
  uint32_t index() const noexcept { return index_; }

  // ------------------------------------------------------------------------- by the connector
  bool needs_link() const;
  bool is_draining() const;
  bool take_unproven_loss();
  void begin_attempt();
  uint32_t next_link_tag() const;
  void install(std::unique_ptr<Link> link);
  void rest(const std::string& why);
  // Likewise, but another lane takes over the calls that wait for a connection.
  void rest(const std::string& why, Lane& stand_in);
  // The same of calls that were added since then, and of those that a server which shuts down was
  // not sent.
  void hand_over(Lane& stand_in);
  // The server has no shard for it now: its staged calls fail.
  void retire();

  // ------------------------------------------------------------------------- by the I/O thread
  // The events to poll for; lowers `until` to its next time-out.
  pollfd watch(Clock::time_point& until);
  void tend(short events);

  // Completes everything; later calls complete at once.
  void close();

 private:
  enum class State : uint8_t { connecting, up, resting, retired, closed };
  enum class Leader : uint8_t { none, caller, io };

  std::optional<Failure> failure_now();
  template <typename AnyCall>
  Ticket add_call(const AnyCall& call, Target target);
  bool wait_for_room(Lock& lock, Clock::time_point deadline, const Target& target);
  template <typename AnyCall>
  typename AnyCall::Frame& gathering(const AnyCall& call);
  std::unique_ptr<Calls> new_frame(const Call& first);
  std::unique_ptr<QuotaCalls> new_frame(const QuotaCall& first);
  void stage(std::unique_ptr<Job> job);
  void release_unwanted(const Finished& finished);
  void refuse(Lock& lock, Target target, Failure failure);

  bool may_send() const noexcept;
  void flush(Lock& lock);
  void pick_outgoing();
  bool write_outgoing();
  void complete_unsent(Lock& lock);
  void resume_writing(Lock& lock);

  bool may_lead(const Waiter& waiter) const noexcept;
  bool wants_io_leader() const noexcept;
  Waiter* candidate() const noexcept;
  void lead(Lock& lock, Waiter& waiter, Deadline deadline);
  void hand_on();
  void read_answers(Lock& lock);
  void settle(Lock& lock, const Answer& answer);
  void take_report(const Answer& answer);
  void settle_waiting(Lock& lock, const Answer& answer, uint64_t id);
  std::unique_ptr<Job> detach(uint64_t id);
  Job* find(uint64_t id) noexcept;
  void finish(Lock& lock, Finished& finished, uint64_t id);
  void go_away(Lock& lock);
  void note_answer();

  void lose(Lock& lock, const std::string& why);
  std::vector<std::unique_ptr<Job>> take_sent();
  std::vector<std::unique_ptr<Job>> take_staged();
  void fail(Lock& lock, std::vector<std::unique_ptr<Job>> jobs, Failure failure);
  void expire(Lock& lock);
  template <typename Visit>
  void for_each_job(Visit visit);
  template <typename Visit>
  void for_each_other_lane(Visit visit);
  void leave_here(Waiter& waiter);
  void cancel_here(const Ticket& ticket);
  void move_staged(Lane& to, Finished& finished);
  void recycle(std::unique_ptr<Job> job);

  const uint32_t index_;
  const ClientOptions& options_;
  Platform& platform_;
  IoThread& io_;
  Connector& connector_;

  mutable std::mutex mutex_;
  Condition changed_;  // a thread stopped writing or leading
  Condition room_;     // a call is complete

  State state_ = State::connecting;
  bool has_stand_in_ = false;  // while it rests or drains: another lane takes its calls over
  bool is_lost_ = false;       // the link is broken; it stays until no thread uses it
  bool is_draining_ = false;   // the server sent GoAway
  bool is_proven_ = false;     // the server has answered a request on this link
  bool is_writing_ = false;
  bool is_write_blocked_ = false;  // the socket took only a part: the I/O thread writes the rest
  Leader leader_ = Leader::none;
  bool is_watched_ = false;  // the I/O thread polls the socket
  std::unique_ptr<Link> link_;
  uint32_t link_tag_ = 0;
  uint32_t generation_ = 0;
  std::atomic<uint32_t> held_tag_{0};
  std::string last_error_;

  std::atomic<bool> has_moved_jobs_{false};
  uint64_t next_id_;  // no other lane has the same ids
  std::deque<std::unique_ptr<Job>> staged_;
  std::vector<std::unique_ptr<Job>> in_flight_;
  size_t in_flight_bytes_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Job>>
      waiting_;                   // with entries in the server's queues
  std::vector<Job*> outgoing_;    // of the writing thread
  std::vector<uint64_t> unsent_;  // of the writing thread
  std::vector<std::unique_ptr<Calls>> spare_;

  size_t pending_ = 0;    // calls that are not complete
  size_t callbacks_ = 0;  // of them, those with a callback
  size_t blocked_ = 0;    // callers that wait for room
  Waiter* waiters_ = nullptr;
  Clock::time_point earliest_deadline_ = Clock::time_point::max();
  Clock::time_point watched_until_ = Clock::time_point::max();
};

}  // namespace sluicegate
