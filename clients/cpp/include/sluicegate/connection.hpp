// One connection to a server: blocking calls, or any number of frames in flight.
// Flow:   connect() does Hello and Welcome; send() queues frames, flush() writes them, receive()
//         returns answers in the order they come, which need not be the order sent.
// Shape:  synchronous and single-threaded: batching, threads and reconnects are layers above.
// Errors: see error.hpp. After ConnectionLost and ProtocolError only the destructor is of use.
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
#include "sluicegate/outstanding_frames.hpp"

namespace sluicegate {

struct ConnectOptions {
  std::string client_name = "sluicegate-cpp";
  std::optional<uint32_t> wanted_shard;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{5'000};  // of the blocking calls
};

struct AcquireOptions {
  uint32_t cost = 1;
  uint32_t max_requests = keep;
  uint32_t max_requests_in_queue = keep;
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;
};

// What went over a connection since it is there.
struct Traffic {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t system_calls = 0;  // sends, receives and waits
};

class Connection {
 public:
  using Milliseconds = std::chrono::milliseconds;

  Connection(const std::string& host, uint16_t port, ConnectOptions options = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Welcome& welcome() const noexcept { return welcome_; }
  // The shard that owns a key, by the routing hash of Welcome; this connection's when unknown.
  uint32_t owner_shard(std::string_view key) const noexcept;
  // True after GoAway: new frames are refused.
  bool draining() const noexcept { return draining_; }

  // ------------------------------------------------------------------------- pipelining
  // Each queues a frame and returns its id. Throws LimitExceeded when Welcome's bounds would be
  // exceeded: receive() answers first.
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

  // Writes all that is queued. It reads meanwhile, so that neither side waits for the other.
  void flush();
  // The next answer; nothing when none came in time. Flushes first. Zero only looks.
  std::optional<Answer> receive(Milliseconds timeout);
  // True when receive() has an answer without looking at the socket: poll() does not tell of it.
  bool has_answer() const;
  const Traffic& traffic() const noexcept { return traffic_; }
  // For poll() and for tools with a loop of their own.
  int native_handle() const noexcept { return socket_; }

  // ---------------------------------------------------------------------- blocking calls
  // Answers to frames sent before are kept for receive(). A call that the server refuses throws
  // Refused; one that takes too long throws TimedOut, and its answer comes through receive().
  Verdict acquire(std::string_view key, const AcquireOptions& options = {});
  // Waits for the outcome of entries that queue. With may_wait and no wait limit this takes as
  // long as it takes; otherwise the call's time-out starts when the wait limit ends.
  std::vector<Verdict> acquire(std::span<const std::string_view> keys,
                               const AcquireOptions& options = {});
  std::vector<Verdict> acquire(std::span<const uint32_t> handles,
                               const AcquireOptions& options = {});
  // A handle per key, valid on this connection until forget() or its end; a key that has one
  // keeps it. In one frame, so the bounds of Welcome hold. Throws NotInterned, with the outcome of
  // every key, when some got none.
  std::vector<uint32_t> intern(std::span<const std::string_view> keys);
  void forget(std::span<const uint32_t> handles);
  void release(std::string_view key, uint32_t cost = 1);
  void release(const Release&);
  void withdraw(const Withdraw&);
  // Nothing when the server does not know the key. The result's key is the argument's.
  std::optional<InspectedKey> inspect(std::string_view key);
  void ping();

 private:
  using Clock = std::chrono::steady_clock;
  using Frame = std::span<const uint64_t>;

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
  std::optional<Frame> wait_frame(std::optional<Clock::time_point> deadline);
  std::optional<Frame> whole_frame() const;
  std::optional<Frame> next_frame();
  Answer settle(Frame frame);
  bool write_some();
  void drop_written();
  bool read_some();
  bool poll_until(short events, std::optional<Clock::time_point> deadline);
  void handshake(const ConnectOptions& options);
  Clock::time_point call_deadline() const { return Clock::now() + call_timeout_; }

  int socket_ = -1;
  std::string peer_;
  Milliseconds call_timeout_;
  Welcome welcome_;
  bool draining_ = false;
  uint64_t next_id_ = 1;

  OutstandingFrames outstanding_;
  Traffic traffic_;

  std::vector<uint64_t> output_;
  size_t output_begin_bytes_ = 0;  // what lies before was written

  std::vector<uint64_t> input_;
  size_t input_begin_bytes_ = 0;  // whole words; what lies before was returned
  size_t input_end_bytes_ = 0;

  std::deque<std::vector<uint64_t>> kept_;  // settled frames that blocking calls passed over
  std::vector<uint64_t> current_;           // the kept frame that receive() returned last
};

// A connection to the shard that owns `key`, so that no request for it crosses from core to core.
// Connects a second time when the first connection came to another shard.
std::unique_ptr<Connection> connect_to_owner(const std::string& host, uint16_t port,
                                             std::string_view key, ConnectOptions options = {});

}  // namespace sluicegate
