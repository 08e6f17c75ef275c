// A client for programs of many threads: it batches the calls of all threads automatically and
// sends them over one connection per shard of the server.
// Flow:   acquire() adds its entry to the frame that is being gathered. The client sends a frame as
//         soon as fewer than `frames_in_flight` are out, so a lone call is never delayed and calls
//         that arrive while frames are out share the next one. No timer is involved.
// Shape:  a caller that blocks on an idle connection sends and receives by itself, and hands that
//         job to the next caller when its own answer has arrived; a thread of the client does
//         everything else. Callbacks run on that thread only, with two exceptions: the calling
//         thread reports `overloaded` at once, and close() reports `closed`.
// Fate:   each call completes once: by the server's answer, by its time-out, by the loss of its
//         connection, or by close(). Every outcome but the server's answer is a Failure, and
//         OnFailure defines its meaning. Nothing is sent a second time unless `requeue` is set, but
//         settles that are kept.
// Units:  times are milliseconds.
// Errors: outcomes are [[nodiscard]]: one that nobody reads may be a refusal. See error.hpp for
//         what blocking calls throw; callbacks get the same as Outcome.
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

// What a Failure means to a caller. A call that the server refused is a mistake, not an outage: it
// throws under every policy.
enum class OnFailure : uint8_t {
  error,   // blocking calls throw; an Outcome has no verdict
  open,    // approved: too many requests are better than an outage
  closed,  // denied: an outage is better than too many requests
};

enum class WhenFull : uint8_t {
  block,  // the caller waits for room
  refuse  // Failure::overloaded, at once
};

struct ClientOptions {
  std::string client_name = "sluicegate-cpp";
  OnFailure on_failure = OnFailure::error;
  // Sends the open calls of a lost connection again, and keeps calls until there is a connection or
  // they time out. A permit may then be taken twice, or released twice.
  bool requeue = false;
  std::chrono::milliseconds connect_timeout{5'000};
  // Of a call without its own `timeout`; for a call that may wait, it starts when the wait limit
  // ends.
  std::chrono::milliseconds call_timeout{5'000};
  // Between attempts to connect: doubled each time, and cut by a random part of up to a half.
  std::chrono::milliseconds backoff_first{20};
  std::chrono::milliseconds backoff_longest{2'000};
  // Of several nodes: one that the client cannot reach, while it reaches others, is tried again
  // after this time.
  std::chrono::milliseconds owner_retry{30'000};
  // Calls of one connection that are not complete, including those in the server's queues.
  uint32_t pending_max = 65'536;
  WhenFull when_full = WhenFull::block;
  uint32_t frame_entries_max = 1'024;  // of a frame of single calls
  uint32_t frames_in_flight = 2;       // of single calls; batches have up to 16
  // Settles that the client repeats by itself (docs/clients.md, "No settle is lost").
  uint32_t kept_settles_max = 65'536;
  // How long close() waits while settles are kept.
  std::chrono::milliseconds settle_timeout{5'000};
};

struct [[nodiscard]] Outcome {
  Verdict verdict = Verdict::none;
  Failure failure = Failure::none;  // none: the verdict is the server's
  // Of the key's window, where `wants_details` is set and the server has decided; else 0.
  uint32_t limit = 0;
  uint32_t remaining = 0;
  uint64_t window_ms = 0;
  uint64_t reset_ms = 0;
  uint64_t retry_after_ms = 0;  // 0 where the call was approved

  bool approved() const noexcept { return verdict == Verdict::approved; }
  explicit operator bool() const noexcept { return approved(); }
};

struct [[nodiscard]] BatchOutcome {
  std::vector<Verdict> verdicts{};  // of each key, in their order
  size_t failed = 0;                // entries with a verdict of the client, not of the server
  Failure failure = Failure::none;  // the first one that the client noticed
  std::vector<Failure> failures{};  // of each entry; empty when none has failed
  // As in Outcome, of each entry; empty without `wants_details`.
  std::vector<uint32_t> limit{};
  std::vector<uint32_t> remaining{};
  std::vector<uint64_t> window_ms{};
  std::vector<uint64_t> reset_ms{};
  std::vector<uint64_t> retry_after_ms{};

  bool all_approved() const noexcept;

  // The outcome of an entry; operator[] does not check the index.
  Outcome at(size_t index) const;
  Outcome operator[](size_t index) const;
};

// The server did not decide some entries of a batch; thrown with OnFailure::error.
class Incomplete : public Error {
 public:
  explicit Incomplete(BatchOutcome outcome);

  // With Verdict::none for the entries that failed. The permits of approved entries are taken.
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

// Like InspectedKey, but it owns its key.
struct KeyState {
  std::string key{};
  uint64_t window_ms = 0;
  uint64_t reset_ms = 0;
  uint32_t max_requests = 0;
  uint32_t max_requests_in_queue = 0;
  uint32_t approved = 0;
  uint32_t denied = 0;
  uint32_t waiting = 0;
};

struct KeyPage {
  std::vector<KeyState> keys{};
  uint64_t cursor = 0;  // for the next page; 0: this was the last
};

// The settles that the client has kept, because their calls failed or were made by settle_nowait().
struct SettleCounts {
  uint64_t kept = 0;      // that the client repeats now
  uint64_t settled = 0;   // that a server has taken since
  uint64_t recorded = 0;  // usage recorded instead, because no server knew the reservation
  uint64_t lost = 0;      // given up: see docs/clients.md, "No settle is lost"

  bool operator==(const SettleCounts&) const = default;
};

class ClientImpl;

class Client {
 public:
  using Callback = std::function<void(const Outcome&)>;
  using ReserveCallback = std::function<void(Reservation)>;
  using QuotaCallback = std::function<void(const QuotaOutcome&)>;

  // `address`: HOST:PORT of the native protocol, [::1]:8081 for IPv6. Returns at once and connects
  // in the background; calls made before that wait for the attempt's outcome.
  // Throws std::invalid_argument for an invalid address or invalid options.
  explicit Client(const std::string& address, ClientOptions options = {});
  // For servers that share keys and quotas (--instance-urls): the addresses of some or all of them.
  // The client learns from the first one that answers which nodes there are, and sends each key to
  // the node that owns it, each call about quotas to the owner of its first subject or to the node
  // that has its reservation; while it cannot reach that node, to another one, which forwards.
  explicit Client(const std::vector<std::string>& addresses, ClientOptions options = {});
  // For tests, which give the implementation a clock and sockets of their own.
  explicit Client(std::unique_ptr<ClientImpl> impl) noexcept;
  // close(). Not to be called by a callback.
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // ------------------------------------------------------------------------------ one key
  // Blocks until the outcome has arrived, also that of a wait in the queue. `stop` ends such a
  // wait: the client withdraws the entry, and its outcome is then usually `withdrawn`.
  Outcome acquire(std::string_view key, const AcquireOptions& options = {},
                  const std::stop_token& stop = {});
  // The client calls `done` once; `done` may call the client. It must neither block, because
  // nothing else completes meanwhile, nor throw. Where there is no room, and `when_full` is
  // `refuse` or the caller is a callback, `done` is called before this returns.
  Ticket acquire_async(std::string_view key, Callback done, const AcquireOptions& options = {});
  // Like acquire_async(), with a future instead of a callback; errors are in the Outcome.
  [[nodiscard]] std::future<Outcome> acquire_future(std::string_view key,
                                                    const AcquireOptions& options = {});
  // Withdraws a waiting call from its queue. Its callback still runs, usually with `withdrawn`.
  void cancel(const Ticket& ticket);

  // Releases permits.
  void release(std::string_view key, uint32_t cost = 1);
  // The same without waiting for the server: the next frame carries it.
  void release_async(std::string_view key, uint32_t cost = 1, Callback done = {});

  // Releases all permits of the key's window. Its limits stay, and so does the end of its window.
  void reset_key(std::string_view key);

  // The state of a key; nothing when the server does not know it.
  std::optional<KeyState> inspect(std::string_view key);
  // The states of all keys, and those of a page; `limit` 0: as many as the server allows.
  std::vector<KeyState> inspect_all();
  KeyPage inspect_page(uint64_t cursor = 0, uint32_t limit = 0);
  void ping();

  // -------------------------------------------------------------------------- many at once
  // Encodes frames of many entries directly from the caller's keys, with several in flight.
  BatchOutcome acquire_batch(std::span<const std::string_view> keys,
                             const AcquireOptions& options = {});
  // By handles from intern(): the fastest way to acquire.
  BatchOutcome acquire_batch(std::span<const uint32_t> handles, const AcquireOptions& options = {});
  // A handle for each key, valid for the life of this client: after the loss of a connection the
  // client interns its keys again. A key that has a handle keeps it.
  // Throws NotInterned when some keys got none, LimitExceeded beyond 16 million keys.
  [[nodiscard]] std::vector<uint32_t> intern(std::span<const std::string_view> keys);

  // ----------------------------------------------------------------------------------- quotas
  // A denial is a value: the code, when to retry, and the limits that deny where requested. A
  // mistake of the caller throws std::invalid_argument, or InvalidSubject if the server found it.
  // Blocking calls, callbacks, futures and `stop` work as above.

  // Reserves the amounts that a call may need, all of them or none. The guard's destructor cancels
  // a reservation that is still open.
  Reservation reserve(const Subjects& subjects, const ReserveOptions& options = {},
                      const std::stop_token& stop = {});
  Ticket reserve_async(const Subjects& subjects, ReserveCallback done,
                       const ReserveOptions& options = {});
  [[nodiscard]] std::future<Reservation> reserve_future(const Subjects& subjects,
                                                        const ReserveOptions& options = {});
  // A slot of each limit of concurrency, and no request: `requests` is taken for 0.
  Reservation lease(const Subjects& subjects, ReserveOptions options = {},
                    const std::stop_token& stop = {});
  // The outcome that reserve() would have now, without a wait.
  QuotaOutcome check(const Subjects& subjects, const ReserveOptions& options = {});
  // Charges usage without a decision. `id`, chosen by the caller: a repeat is charged once.
  QuotaOutcome record(const Subjects& subjects, const Used& used = {}, std::string_view id = {});
  void record_async(const Subjects& subjects, const Used& used, QuotaCallback done = {},
                    std::string_view id = {});
  // Charges usage if it fits; otherwise it is denied, or waits. Nothing is left to be settled. One
  // that a client withdraws, or gives up, may have been charged meanwhile, and stays so.
  QuotaOutcome consume(const Subjects& subjects, const Used& used,
                       const ConsumeOptions& options = {}, const std::stop_token& stop = {});
  Ticket consume_async(const Subjects& subjects, const Used& used, QuotaCallback done,
                       const ConsumeOptions& options = {});

  // The same for reservations without a guard. A repeated call has the same outcome.
  QuotaOutcome settle(uint64_t reservation, const Used& used = {});
  void settle_async(uint64_t reservation, const Used& used, QuotaCallback done = {});
  // Returns at once: the client sends it, and repeats it until a server has taken it. Throws only
  // for a mistake, Overloaded where kept_settles_max are kept, and Closed.
  void settle_nowait(uint64_t reservation, const Used& used = {});
  SettleCounts settles() const;
  QuotaOutcome cancel_reservation(uint64_t reservation, bool keep_requests = false);
  QuotaOutcome extend(uint64_t reservation, uint32_t lifetime_ms = 0);

  // Frames of many entries. Their reservations have no guard: the caller must call settle_batch().
  QuotaBatchOutcome reserve_batch(std::span<const ReserveEntry> entries,
                                  const ReserveOptions& shared = {});
  QuotaBatchOutcome settle_batch(std::span<const SettleEntry> entries);

  // The usage of a subject, and its quota; for an unknown subject the source is `none`.
  SubjectState usage(std::string_view subject);
  std::vector<SubjectState> usage(std::span<const std::string_view> subjects);
  SubjectPage usage_page(uint64_t cursor = 0, uint32_t limit = 0);
  // The quota is in force until remove_quota(), and overrides the server's policy file. Throws
  // InvalidQuota. Every change may return not_durable: nothing was changed; or memory_only: it was,
  // but a restart of the server may undo it.
  [[nodiscard]] QuotaCode put_quota(std::string_view subject, const Quota& quota);
  std::optional<Quota> get_quota(std::string_view subject);
  [[nodiscard]] QuotaCode remove_quota(std::string_view subject);
  // Clears the usage; open reservations and their slots stay.
  [[nodiscard]] QuotaCode reset(std::string_view subject);
  [[nodiscard]] QuotaCode reset_all();

  // Calls that are not complete, as counted against `pending_max`, over all connections.
  size_t pending() const;
  // Established connections: one per shard of the server, or of each node, in normal operation.
  size_t connections() const;

  // Completes every open call with Failure::closed; later calls get the same. Waits up to
  // `settle_timeout` before that while settles are kept. Throws std::logic_error when a callback
  // calls it.
  void close();

 private:
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace sluicegate
