// One connection of a client, the calls that go over it, and who does its reading. Part of Client.
// Flow:   calls -> staged -> in flight -> (in the server's lines) -> Finished
// Shape:  whoever adds a call also writes, unless somebody writes already or the window is full:
//         then calls gather until an answer makes room. Reading is done by one leader at a time: a
//         blocking caller while it waits for its own answer, the I/O thread for everything else.
//         A leader completes the calls of all, then hands on.
// States: connecting (calls are staged), up, resting after a failed attempt (calls fail at once, or
//         are staged where they are sent again), retired for want of a shard, closed.
// Bounds: `pending_max` calls that are not complete; the server's bounds for what is in flight.
// Threads: everything is under the lock but encoding and the socket, which belong to who writes and
//         who leads.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "calls.hpp"
#include "quota_calls.hpp"
#include "sluicegate/link.hpp"
#include "waiter.hpp"

namespace sluicegate {

class Connector;
class IoThread;

class Lane {
 public:
  using Clock = Waiter::Clock;
  using Deadline = std::optional<Clock::time_point>;
  using Lock = std::unique_lock<std::mutex>;

  Lane(uint32_t index, const ClientOptions& options, IoThread& io, Connector& connector);
  ~Lane();

  // ---------------------------------------------------------------------------- by callers
  // Adds a call; its outcome may be there when this returns. With a target that is a waiter, the
  // caller goes on to await().
  Ticket add(const Call& call, Target target) { return add_call(call, std::move(target)); }
  Ticket add(const QuotaCall& call, Target target) { return add_call(call, std::move(target)); }
  // Sends a call that nobody waits for, whatever is pending, and never blocks.
  void send_off(const QuotaCall& call);
  // Adds the parts of a batch, or a question. `reader`: who is to read, where nobody does.
  enum class Reader : uint8_t { caller, io };
  void add(std::vector<std::unique_ptr<Job>> jobs, Reader reader);
  // Blocks until the waiter is done; at the deadline, what it has here is completed as timed out.
  void await(Waiter& waiter, Deadline deadline);
  // Sees to it that somebody reads, for calls whose caller does not come to await().
  void find_reader();
  // Completes what the waiter has here as timed out.
  void leave(Waiter& waiter);
  void cancel(const Ticket& ticket);

  // Of the connection that there is, for seats of handles; 0 for none.
  const uint32_t& link_tag() const noexcept { return link_tag_; }
  bool holds(uint32_t tag) const noexcept { return tag != 0 && held_tag_.load() == tag; }
  std::string last_error() const;
  size_t pending() const;
  bool mark_awake() const noexcept { return held_tag_.load() != 0; }

  // ------------------------------------------------------------------------- by the connector
  bool needs_link() const;
  bool take_unproven_loss();
  void begin_attempt();
  uint32_t next_link_tag() const;
  void install(std::unique_ptr<Link> link);
  void rest(const std::string& why);
  // There is no shard for it now: what is staged fails.
  void retire();

  // ------------------------------------------------------------------------- by the I/O thread
  // What to poll for; `until` becomes no later than its next time-out.
  pollfd watch(Clock::time_point& until);
  void tend(short events);

  // Completes everything; whatever comes later completes at once.
  void close();

 private:
  enum class State : uint8_t { connecting, up, resting, retired, closed };
  enum class Leader : uint8_t { none, caller, io };

  std::optional<Failure> failure_now() const noexcept;
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
  void give_up(Lock& lock);
  void resume_writing(Lock& lock);

  bool may_lead(const Waiter& waiter) const noexcept;
  bool wants_io_leader() const noexcept;
  Waiter* candidate() const noexcept;
  void lead(Lock& lock, Waiter& waiter, Deadline deadline);
  void hand_on();
  void read_answers(Lock& lock);
  void settle(Lock& lock, const Answer& answer);
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
  void recycle(std::unique_ptr<Job> job);

  const uint32_t index_;
  const ClientOptions& options_;
  IoThread& io_;
  Connector& connector_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // somebody stopped writing or leading
  std::condition_variable room_;     // a call is complete

  State state_ = State::connecting;
  bool is_lost_ = false;      // the link is of no use; it stays until nobody uses it
  bool is_draining_ = false;  // the server sent GoAway
  bool is_proven_ = false;    // the server answered something on this link
  bool is_writing_ = false;
  bool is_write_blocked_ = false;  // the socket took a part only: the I/O thread goes on
  Leader leader_ = Leader::none;
  bool is_watched_ = false;  // by the I/O thread, which was told of nobody else who reads
  std::unique_ptr<Link> link_;
  uint32_t link_tag_ = 0;
  uint32_t generation_ = 0;
  std::atomic<uint32_t> held_tag_{0};
  std::string last_error_;

  uint64_t next_id_ = 1;
  std::deque<std::unique_ptr<Job>> staged_;
  std::vector<std::unique_ptr<Job>> in_flight_;
  size_t in_flight_bytes_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Job>>
      waiting_;                     // with entries in the server's lines
  std::vector<Job*> outgoing_;      // of who writes
  std::vector<uint64_t> given_up_;  // of who writes
  std::vector<std::unique_ptr<Calls>> spare_;

  size_t pending_ = 0;    // calls that are not complete
  size_t callbacks_ = 0;  // of them, those with a callback
  size_t blocked_ = 0;    // callers that wait for room
  Waiter* waiters_ = nullptr;
  Clock::time_point earliest_deadline_ = Clock::time_point::max();
  Clock::time_point watched_until_ = Clock::time_point::max();
};

}  // namespace sluicegate
