// Quotas as values: the limits of a subject, their usage, and the outcome of a reservation.
// Shape:  numbers of enumerations are those on the wire (proto/sluicegate.capnp), never reused.
// Units:  tokens, requests, micro-units of cost; milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/error.hpp"

namespace sluicegate {

// -------------------------------------------------------------------------------- outcomes

enum class QuotaCode : uint8_t {
  none = 0,  // never sent: the client reports it when it has no answer
  ok = 1,
  unlimited = 2,                // admitted: all of its limits are unlimited
  unknown_subject_allowed = 3,  // admitted: subjects without a quota are allowed
  queued = 4,                   // waits in a queue; never the outcome of a call
  // Denied; asking again later may help.
  rpd_exceeded = 5,  // a daily limit of requests
  rpm_exceeded = 6,  // a limit of requests per minute
  tpm_exceeded = 7,  // a limit of tokens per minute
  requests_exceeded = 8,
  input_tokens_exceeded = 9,
  output_tokens_exceeded = 10,
  tokens_exceeded = 11,
  cost_exceeded = 12,
  concurrency_exceeded = 13,
  queue_ahead = 14,          // it would fit, but others wait ahead and it may not wait
  deadline_unmeetable = 15,  // it would have to wait longer than its wait limit
  wait_limit = 16,           // waited as long as allowed
  withdrawn = 17,
  draining = 18,
  waiters_full = 19,
  reservations_full = 20,
  subjects_full = 21,
  id_in_use = 22,
  // Denied for good.
  exceeds_limit = 23,    // more than the whole amount of a limit
  blocked = 24,          // a limit admits nothing
  unknown_subject = 25,  // subjects without a quota are denied
  subjects_apart = 26,   // not given any more
  invalid_subject = 27,
  // Of a reservation.
  unknown_reservation = 28,
  already_settled = 29,
  already_cancelled = 30,
  already_expired = 31,
  // Of a quota.
  invalid_quota = 32,
  no_such_quota = 33,
  // Denied; asking again later may help.
  connection_waiters_full = 34,  // this connection has its share of the waiters
  subject_waiters_full = 35,     // a subject has
  // Of a change of a quota or its usage, where the server keeps its state; a later retry may help.
  not_durable = 36,  // nothing was changed: the state file cannot be written now
  memory_only = 37,  // changed, but the state file could not be written: a restart may undo it
  // Of a call that another node decides; a later retry may help.
  owner_unreachable = 38,  // it does not answer, or cannot be asked
  failed_closed = 39,      // denied for that reason (--peer-failure closed)
};
inline constexpr size_t quota_codes_count = 40;

// "tpm_exceeded", ...; "unknown" for the code of a newer server.
std::string_view name(QuotaCode) noexcept;
// The sentence that explains it: "per-minute token limit reached".
std::string_view reason(QuotaCode) noexcept;
constexpr bool admits(QuotaCode code) noexcept {
  return code == QuotaCode::ok || code == QuotaCode::unlimited ||
         code == QuotaCode::unknown_subject_allowed;
}
// Whether the caller made a mistake: this is no denial, and blocking calls throw it.
constexpr bool is_mistake(QuotaCode code) noexcept {
  return code == QuotaCode::subjects_apart || code == QuotaCode::invalid_subject ||
         code == QuotaCode::invalid_quota;
}
// Whether the same call may be admitted later without a change of a quota.
bool may_retry(QuotaCode code) noexcept;

// --------------------------------------------------------------------------------- quotas

enum class Metric : uint8_t {
  requests = 0,
  input_tokens = 1,
  output_tokens = 2,
  tokens = 3,  // input and output
  cost = 4,
  concurrency = 5,  // open reservations
};

enum class LimitKind : uint8_t {
  concurrency = 0,  // open reservations, without a period
  fixed = 1,
  sliding = 2,
  gcra = 3,
  anchored_day = 4,
  rolling_day = 5,
  calendar = 6,
};

enum class Ceiling : uint8_t {
  number = 0,     // `amount` is the limit
  unlimited = 1,  // counted, never denied
  block = 2,      // always denied
};

enum class CalendarUnit : uint8_t { none = 0, hour = 1, day = 2, week = 3, month = 4 };

// The origin of a subject's quota.
enum class QuotaSource : uint8_t {
  none = 0,      // unknown subject
  run_time = 1,  // put_quota(); in force until it is removed
  file = 2,
  profile = 3,
  file_default = 4,  // the file's default for unknown subjects
};

std::string_view name(Metric) noexcept;
std::string_view name(LimitKind) noexcept;
std::string_view name(Ceiling) noexcept;
std::string_view name(CalendarUnit) noexcept;
std::string_view name(QuotaSource) noexcept;

struct Limit {
  std::string name{};  // unique in its quota, 1 to 32 bytes
  Metric metric = Metric::requests;
  // put_quota() takes the default of Metric::concurrency, without a period, for concurrency.
  LimitKind kind = LimitKind::sliding;
  Ceiling ceiling = Ceiling::number;
  uint64_t amount = 0;
  uint64_t period_ms = 0;  // concurrency and calendar: 0
  CalendarUnit unit = CalendarUnit::none;
  std::string time_zone{};    // calendar: an IANA name; empty: UTC
  bool count_cached = false;  // cached input tokens count as input too

  bool operator==(const Limit&) const = default;
};

struct Quota {
  std::vector<Limit> limits{};  // at most 16
  bool refund_expired = false;  // the server refunds the charge of an expired reservation
  uint32_t overtakers_max = 0;  // how many calls may overtake the head of the queue
  std::string profile{};        // reported only: the profile that the quota came from

  bool operator==(const Quota&) const = default;
};

// The current state of a limit.
struct LimitState {
  uint32_t entry = 0;   // index in its frame; always 0 in the outcome of a call
  uint8_t subject = 0;  // index among the entry's subjects
  std::string name{};
  Metric metric = Metric::requests;
  LimitKind kind = LimitKind::concurrency;
  Ceiling ceiling = Ceiling::number;
  bool violated = false;  // it denies the call
  uint64_t amount = 0;
  uint64_t used = 0;       // the total charge; may exceed the amount
  uint64_t reserved = 0;   // the part of `used` that belongs to open reservations
  uint64_t remaining = 0;  // never below 0
  uint64_t period_ms = 0;
  uint64_t reset_ms = 0;  // until its usage is 0 if no call is charged

  bool operator==(const LimitState&) const = default;
};

struct SubjectState {
  std::string name{};
  QuotaSource source = QuotaSource::none;
  uint32_t open_reservations = 0;
  uint32_t waiting = 0;
  Quota quota{};
  std::vector<LimitState> limits{};
};

struct SubjectPage {
  std::vector<SubjectState> subjects{};
  uint64_t cursor = 0;    // for the next page; 0: this was the last
  uint32_t left_out = 0;  // subjects with limits that did not fit into the reply
};

// A guess at the tokens of a UTF-8 text: a quarter of its characters, rounded up. Good enough for
// a reservation, whose settle replaces it by the tokens used.
uint64_t estimate_tokens(std::string_view text) noexcept;

// ----------------------------------------------------------------------------------- calls

// One subject, or up to 8, whatever their names. Valid for one call: it refers to the caller's
// text.
class Subjects {
 public:
  Subjects(const char* one) : one_{one} {}
  Subjects(const std::string& one) : one_{one} {}
  Subjects(std::string_view one) : one_{one} {}
  Subjects(std::span<const std::string_view> several) : several_{several}, is_one_{false} {}
  Subjects(const std::vector<std::string_view>& several)
      : Subjects{std::span<const std::string_view>{several}} {}
  Subjects(std::initializer_list<std::string_view> several)
      : Subjects{std::span<const std::string_view>{several.begin(), several.size()}} {}

  std::span<const std::string_view> names() const noexcept {
    return is_one_ ? std::span<const std::string_view>{&one_, 1} : several_;
  }

 private:
  std::string_view one_;
  std::span<const std::string_view> several_;
  bool is_one_ = true;
};

// What a guard does that an exception destroys: it settles what was reported, and cancels if that
// is nothing; leaves all charged as reserved; or cancels whatever was reported.
enum class OnException : uint8_t { charge_reported, charge_all, refund };

struct ReserveOptions {
  uint32_t requests = 1;
  uint64_t input_tokens = 0;
  std::optional<uint64_t> max_output_tokens{};  // nothing: the server's default
  uint64_t cost = 0;
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;     // 0: none of its own
  uint32_t lifetime_ms = 0;       // 0: the server's default
  std::string_view id{};          // chosen by the caller: the call is admitted once
  std::string_view owner{};       // name of the holder, for people to read
  bool connection_bound = false;  // expires when the connection that carried the call ends
  bool wants_violated = false;    // report the limits that deny, with a denial
  bool wants_limits = false;      // report every limit of every subject
  OnException on_exception = OnException::charge_reported;  // of the guard
  bool renew = false;  // the client extends it, by `lifetime_ms`, as long as the guard lives
  // Of this call, from the end of its wait limit; 0: `call_timeout` of the client's options.
  std::chrono::milliseconds timeout{0};
};

// Used amounts. In settle(), an unset amount stays as reserved; in record() and consume(), unset
// amounts count as one request and nothing else.
struct Used {
  std::optional<uint32_t> requests{};
  std::optional<uint64_t> input_tokens{};
  std::optional<uint64_t> output_tokens{};
  std::optional<uint64_t> cost{};
  uint64_t cached_input_tokens = 0;  // a part of the input that most limits do not count
};

struct ConsumeOptions {
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;   // 0: none of its own
  std::string_view id{};        // chosen by the caller: a repeat is charged once
  bool wants_violated = false;  // report the limits that deny, with a denial
  bool wants_limits = false;    // report every limit of every subject
  // Of this call, from the end of its wait limit; 0: `call_timeout` of the client's options.
  std::chrono::milliseconds timeout{0};
};

struct [[nodiscard]] QuotaOutcome {
  QuotaCode code = QuotaCode::none;
  Failure failure = Failure::none;   // none: the code is the server's
  bool kept = false;                 // of a settle: the client repeats it in the background
  uint64_t reservation = 0;          // 0: there is none
  int64_t retry_after_ms = 0;        // how long to wait before a retry may help; -1: never helps
  std::vector<LimitState> limits{};  // where requested
  uint64_t instance_id = 0;          // of the start of the server that answered; 0: not known

  bool admitted() const noexcept { return admits(code); }
  explicit operator bool() const noexcept { return admitted(); }

  // Of the reported limits, the one that denies longest: of those that deny, the last to be reset.
  // Null: none is reported that denies.
  const LimitState* violated() const noexcept;
  // What it leaves, and when its usage is 0 if no call is charged; nothing without such a limit.
  std::optional<uint64_t> remaining() const noexcept;
  std::optional<std::chrono::milliseconds> reset() const noexcept;
};

// An entry of a batch.
struct ReserveEntry {
  std::string_view subject{};
  uint32_t requests = 1;
  uint64_t input_tokens = 0;
  std::optional<uint64_t> max_output_tokens{};
  uint64_t cost = 0;
};

struct SettleEntry {
  uint64_t reservation = 0;
  Used used{};
};

struct [[nodiscard]] QuotaBatchOutcome {
  std::vector<QuotaCode> codes{};         // of each entry, in their order
  std::vector<uint64_t> reservations{};   // of reserve_batch: 0 where there is none
  size_t failed = 0;                      // entries with a code of the client, not of the server
  Failure failure = Failure::none;        // the first one that the client noticed
  std::vector<int64_t> retry_after_ms{};  // of reserve_batch, likewise
  std::vector<Failure> failures{};        // of each entry; empty when none has failed

  bool all_admitted() const noexcept;

  // The outcome of an entry; operator[] does not check the index.
  QuotaOutcome at(size_t index) const;
  QuotaOutcome operator[](size_t index) const;
};

// The server rejected a quota; the one before stays in force. what() names the fields at fault.
class InvalidQuota : public Error {
 public:
  // `detail`: of the server; empty: it gave none.
  explicit InvalidQuota(std::string_view detail);
};

// The server takes no such name, or one twice (`invalid_subject`; older servers also answer
// `subjects_apart`). what() names the longest one, where the client has checked all but its length.
// Futures have it, callbacks and batches get the code.
class InvalidSubject : public Error {
 public:
  // `place`: of the name at fault; empty: it is unknown.
  explicit InvalidSubject(QuotaCode code, std::string_view place = {});

  QuotaCode code() const noexcept { return code_; }

 private:
  QuotaCode code_;
};

// The node that owns a subject or a key does not answer: its usage is not known, or its permits
// were not released. A later try may help.
class OwnerUnreachable : public Error {
 public:
  explicit OwnerUnreachable(std::string_view subject);
  static OwnerUnreachable of_key(std::string_view key);

 private:
  using Error::Error;
};

// The server did not answer some entries of a batch; thrown with OnFailure::error.
class QuotaIncomplete : public Error {
 public:
  explicit QuotaIncomplete(QuotaBatchOutcome outcome);

  // With QuotaCode::none for the entries that failed. Admitted entries are reserved.
  const QuotaBatchOutcome& outcome() const noexcept { return outcome_; }

 private:
  QuotaBatchOutcome outcome_;
};

}  // namespace sluicegate
