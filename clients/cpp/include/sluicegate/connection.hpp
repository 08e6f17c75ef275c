// One connection to a server: blocking calls, or any number of frames in flight.
// Flow:   connect() does Hello and Welcome; send() queues frames, flush() writes them, receive()
//         returns answers in the order they arrive, which may differ from the order sent.
// Shape:  synchronous and single-threaded: batching, threads and reconnects are layers above.
// Errors: see error.hpp. After ConnectionLost and ProtocolError only the destructor may be called.
// Lives:  an Answer's spans and string_views until the next non-const call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/frames.hpp"
#include "sluicegate/link.hpp"
#include "sluicegate/outstanding_frames.hpp"

namespace sluicegate {

struct AcquireOptions {
  uint32_t cost = 1;
  // The key's limit, queue length and window from now on, for all callers.
  uint32_t max_requests = keep;
  uint32_t max_requests_in_queue = keep;
  uint64_t window_ms = keep_window;
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;
  bool wants_details = false;  // of a Client's call: report limit, remaining and times
  // Of this call, from the end of its wait limit; 0: `call_timeout` of the options.
  std::chrono::milliseconds timeout{0};
};

class Connection {
 public:
  using Milliseconds = std::chrono::milliseconds;

  Connection(const std::string& host, uint16_t port, const ConnectOptions& options = {});
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Welcome& welcome() const noexcept { return link_.welcome(); }
  // The shard that owns a key, by the routing hash of Welcome; this connection's when unknown.
  uint32_t owner_shard(std::string_view key) const noexcept;
  // True after GoAway: new frames are refused.
  bool draining() const noexcept { return draining_; }

  // ------------------------------------------------------------------------- pipelining
  // Each queues a frame and returns its id. Throws LimitExceeded when the frame would exceed the
  // bounds of Welcome: call receive() first.
  uint64_t send(const Acquire&);
  uint64_t send(const AcquireByHandle&);
  uint64_t send(const Release&);
  uint64_t send(const Withdraw&);
  uint64_t send(const Inspect&);
  uint64_t send(const Intern&);
  uint64_t send(const Forget&);
  uint64_t send(const Ping&);

  // True when send() would take a frame of this size now.
  bool has_room(size_t frame_bytes) const noexcept;
  size_t outstanding_frames() const noexcept { return outstanding_.count(); }

  // Writes all queued frames. It reads meanwhile, so that neither side waits for the other.
  void flush();
  // The next answer; nothing when none arrived in time. Flushes first. Zero does not wait.
  [[nodiscard]] std::optional<Answer> receive(Milliseconds timeout);
  // True when receive() can return an answer without reading the socket: poll() does not report it.
  bool has_answer() const;
  Traffic traffic() const noexcept { return link_.traffic(); }
  // For poll() and for tools with a loop of their own.
  int native_handle() const noexcept { return link_.socket(); }

  // ---------------------------------------------------------------------- blocking calls
  // Answers to frames sent before are kept for receive(). A call that the server refuses throws
  // Refused; one that takes too long throws TimedOut, and receive() returns its answer later.
  [[nodiscard]] Verdict acquire(std::string_view key, const AcquireOptions& options = {});
  // Waits for the outcome of queued entries. With may_wait, no wait limit and no time-out this
  // waits without limit; otherwise the call's time-out starts when the wait limit ends.
  [[nodiscard]] std::vector<Verdict> acquire(std::span<const std::string_view> keys,
                                             const AcquireOptions& options = {});
  [[nodiscard]] std::vector<Verdict> acquire(std::span<const uint32_t> handles,
                                             const AcquireOptions& options = {});
  // A handle per key, valid on this connection until forget() or its end; a key that has one
  // keeps it. In one frame, so the bounds of Welcome apply. Throws NotInterned, with the outcome of
  // every key, when some got none.
  [[nodiscard]] std::vector<uint32_t> intern(std::span<const std::string_view> keys);
  void forget(std::span<const uint32_t> handles);
  void release(std::string_view key, uint32_t cost = 1);
  void release(const Release&);
  void withdraw(const Withdraw&);
  // Nothing when the server does not know the key. The result's key is the argument's.
  std::optional<InspectedKey> inspect(std::string_view key);
  void ping();

 private:
  using Clock = std::chrono::steady_clock;
  using Frame = FrameReader::Frame;

  template <typename Request>
  uint64_t queue(const Request&);
  void check(const Acquire& acquire) const { check_entries(acquire.keys.size()); }
  void check(const AcquireByHandle& acquire) const { check_entries(acquire.handles.size()); }
  void check(const Release& release) const { check_entries(release.keys.size()); }
  void check(const Intern&) const;
  void check(const Forget& forget) const { check_entries(forget.handles.size()); }
  template <typename Request>
  void check(const Request&) const {}
  void check_entries(size_t entries_count) const;

  template <typename Question>
  std::vector<Verdict> acquire_all(Question question, size_t count, const AcquireOptions& options);
  Answer await(uint64_t id, std::optional<Clock::time_point> deadline);
  void await_done(uint64_t id);
  std::vector<Verdict> await_verdicts(uint64_t id, size_t count,
                                      std::optional<Clock::time_point> deadline);
  Answer settle(Frame frame);
  Clock::time_point call_deadline() const { return Clock::now() + call_timeout_; }

  Link link_;
  Milliseconds call_timeout_;
  bool draining_ = false;
  uint64_t next_id_ = 1;

  OutstandingFrames outstanding_;

  std::deque<std::vector<uint64_t>> kept_;  // answers that blocking calls left to receive()
  std::vector<uint64_t> current_;           // the kept frame that receive() returned last
};

// A connection to the shard that owns `key`, so that no request for it needs a shard message.
// Connects a second time when another shard accepted the first connection.
std::unique_ptr<Connection> connect_to_owner(const std::string& host, uint16_t port,
                                             std::string_view key, ConnectOptions options = {});

}  // namespace sluicegate
