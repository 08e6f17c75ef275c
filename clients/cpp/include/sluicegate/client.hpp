// A client for programs of many threads: calls from any of them, batched by themselves, over a
// connection to each shard of the server.
// Flow:   acquire() joins the frame that is being gathered; a frame is sent as soon as fewer than
//         `frames_in_flight` are out, so that a lone call is never held back and calls that come
//         while frames are out travel together. No timer is involved.
// Shape:  a caller that blocks on an idle connection does the sending and receiving itself, and
//         hands that on to the next when its answer is there; for everything else there is a
//         thread of the client's own. Callbacks run on that thread and nowhere else, but for
//         `overloaded`, which the caller is told at once, and `closed`, which close() tells.
// Fate:   each call completes once: by the server's answer, by its time-out, by the loss of its
//         connection, or by close(). What was not the server's answer is a Failure, and OnFailure
//         says what that means. Nothing is sent a second time unless `requeue` asks for it.
// Errors: see error.hpp for what blocking calls throw; callbacks get the same as Outcome.
// Units:  times are milliseconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/connection.hpp"
#include "sluicegate/error.hpp"
#include "sluicegate/quota.hpp"
#include "sluicegate/reservation.hpp"
#include "sluicegate/verdict.hpp"

namespace sluicegate {

// What a Failure means to a caller. One that the server refused is a mistake, not an outage: it
// throws whatever the policy.
enum class OnFailure : uint8_t {
  error,   // blocking calls throw; an Outcome has no verdict
  open,    // approved: rather too much than an outage
  closed,  // denied: rather an outage than too much
};

enum class WhenFull : uint8_t {
  block,  // the caller waits for room
  refuse  // Failure::overloaded, at once
};

struct ClientOptions {
  std::string client_name = "sluicegate-cpp";
  OnFailure on_failure = OnFailure::error;
  // Sends again what a lost connection left open, and keeps calls until there is one, or for their
  // time-out. A permit may then be taken twice.
  bool requeue = false;
  std::chrono::milliseconds connect_timeout{5'000};
  // A call without `timeout` of its own; of one that may wait, from the end of its wait limit.
  std::chrono::milliseconds call_timeout{5'000};
  // Between attempts to connect: doubled each time, and cut by a random part of up to a half.
  std::chrono::milliseconds backoff_first{20};
  std::chrono::milliseconds backoff_longest{2'000};
  // Calls of one connection that are not complete, those in the server's lines among them.
  uint32_t pending_max = 65'536;
  WhenFull when_full = WhenFull::block;
  uint32_t frame_entries_max = 1'024;  // of a frame of single calls
  uint32_t frames_in_flight = 2;       // of single calls; batches have up to 16
};

struct Outcome {
  Verdict verdict = Verdict::none;
  Failure failure = Failure::none;  // none: the verdict is the server's

  bool approved() const noexcept { return verdict == Verdict::approved; }
  explicit operator bool() const noexcept { return approved(); }
};

struct BatchOutcome {
  std::vector<Verdict> verdicts;    // of each key, in their order
  size_t failed = 0;                // entries whose verdict is the client's, not the server's
  Failure failure = Failure::none;  // of the first that was noticed

  bool all_approved() const noexcept;
};

// Some entries of a batch have no verdict of the server's; OnFailure::error.
class Incomplete : public Error {
 public:
  explicit Incomplete(BatchOutcome outcome);

  // With Verdict::none for those that failed. What was approved is taken.
  const BatchOutcome& outcome() const noexcept { return outcome_; }

 private:
  BatchOutcome outcome_;
};

// A call that is not complete, to be cancelled.
struct Ticket {
  uint32_t lane = 0;
  uint32_t entry = 0;
  uint64_t frame = 0;
};

// Like InspectedKey, with a key of its own.
struct KeyState {
  std::string key;
  uint64_t window_ms = 0;
  uint64_t reset_ms = 0;
  uint32_t max_requests = 0;
  uint32_t max_requests_in_queue = 0;
  uint32_t approved = 0;
  uint32_t denied = 0;
  uint32_t waiting = 0;
};

class ClientImpl;

class Client {
 public:
  using Callback = std::function<void(const Outcome&)>;
  using ReserveCallback = std::function<void(Reservation)>;
  using QuotaCallback = std::function<void(const QuotaOutcome&)>;

  // `address`: HOST:PORT of the native protocol, [::1]:8081 for IPv6. Returns at once and connects
  // meanwhile; calls made before that wait for the attempt's outcome.
  // Throws std::invalid_argument for an address or options that cannot be.
  explicit Client(const std::string& address, ClientOptions options = {});
  // close(). Not to be called by a callback.
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // ------------------------------------------------------------------------------ one key
  // Blocks until the outcome is there, that of a wait in line included. `stop` ends such a wait:
  // the entry is withdrawn, and the outcome then mostly `withdrawn`.
  Outcome acquire(std::string_view key, const AcquireOptions& options = {},
                  const std::stop_token& stop = {});
  // `done` is called once, and may call the client. It must not block, as nothing else completes
  // meanwhile, nor throw. Where there is no room, and `when_full` is `refuse` or the caller is a
  // callback, `done` is called before this returns.
  Ticket acquire_async(std::string_view key, Callback done, const AcquireOptions& options = {});
  // A callback by another name; errors are in the Outcome.
  std::future<Outcome> acquire_future(std::string_view key, const AcquireOptions& options = {});
  // Takes a waiting call out of its line. Its callback comes as ever, mostly with `withdrawn`.
  void cancel(const Ticket& ticket);

  // Gives permits back.
  void release(std::string_view key, uint32_t cost = 1);
  // The same without waiting for the server: it goes with the next frame.
  void release_async(std::string_view key, uint32_t cost = 1, Callback done = {});

  // What the server knows of a key; nothing when it does not know it.
  std::optional<KeyState> inspect(std::string_view key);
  void ping();

  // -------------------------------------------------------------------------- many at once
  // Frames of many entries straight from the caller's keys, several of them in flight.
  BatchOutcome acquire_batch(std::span<const std::string_view> keys,
                             const AcquireOptions& options = {});
  // By numbers from intern(): the fastest way to ask.
  BatchOutcome acquire_batch(std::span<const uint32_t> handles, const AcquireOptions& options = {});
  // A number for each key, good for the life of this client: where a connection was lost, the
  // client interns its keys again by itself. A key that has one keeps it.
  // Throws NotInterned when some got none, LimitExceeded beyond 16 million keys.
  std::vector<uint32_t> intern(std::span<const std::string_view> keys);

  // ----------------------------------------------------------------------------------- quotas
  // A denial is a value: code, when to ask again, and the limits that deny where asked for.
  // Blocking, callbacks, futures and `stop` as above.

  // Takes what a call may need, all of it or nothing. Destroyed, the guard cancels what is open.
  Reservation reserve(const Subjects& subjects, const ReserveOptions& options = {},
                      const std::stop_token& stop = {});
  Ticket reserve_async(const Subjects& subjects, ReserveCallback done,
                       const ReserveOptions& options = {});
  std::future<Reservation> reserve_future(const Subjects& subjects,
                                          const ReserveOptions& options = {});
  // A slot of each limit of concurrency, and no request: `requests` is taken for 0.
  Reservation lease(const Subjects& subjects, ReserveOptions options = {},
                    const std::stop_token& stop = {});
  // What reserve() would say now, without a wait.
  QuotaOutcome check(const Subjects& subjects, const ReserveOptions& options = {});
  // Charges without asking.
  QuotaOutcome record(const Subjects& subjects, const Used& used = {});
  void record_async(const Subjects& subjects, const Used& used, QuotaCallback done = {});

  // The same for reservations that no guard holds. A repeat has the same outcome.
  QuotaOutcome settle(uint64_t reservation, const Used& used = {});
  void settle_async(uint64_t reservation, const Used& used, QuotaCallback done = {});
  QuotaOutcome cancel_reservation(uint64_t reservation, bool keep_requests = false);
  QuotaOutcome extend(uint64_t reservation, uint32_t lifetime_ms = 0);

  // Frames of many entries. What is reserved has no guard: settle_batch() is the caller's to call.
  QuotaBatchOutcome reserve_batch(std::span<const ReserveEntry> entries,
                                  const ReserveOptions& shared = {});
  QuotaBatchOutcome settle_batch(std::span<const SettleEntry> entries);

  // What is used of a subject, and its quota; of one that nobody knows the source is `none`.
  SubjectState usage(std::string_view subject);
  std::vector<SubjectState> usage(std::span<const std::string_view> subjects);
  SubjectPage usage_page(uint64_t cursor = 0, uint32_t limit = 0);
  // Holds until it is removed, before all that the server's file says.
  QuotaCode put_quota(std::string_view subject, const Quota& quota);
  std::optional<Quota> get_quota(std::string_view subject);
  QuotaCode remove_quota(std::string_view subject);
  // Forgets what was used; open reservations and their slots stay.
  QuotaCode reset(std::string_view subject);
  QuotaCode reset_all();

  // Calls that are not complete, as counted against `pending_max`, over all connections.
  size_t pending() const;
  // Connections that there are now: one per shard of the server when all is well.
  size_t connections() const;

  // Completes every call that is open with Failure::closed; later calls get the same. Throws
  // std::logic_error when a callback calls it.
  void close();

 private:
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace sluicegate
