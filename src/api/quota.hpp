// Calls about quotas, and everything that their answers can hold: the values that both dialects are
// decoded to.
// Flow:   a session fills a QuotaBatch -> the worker takes it to the shard of its calls -> quota/
//         decides them in order and writes the answers -> back to the session.
// Shape:  calls, and answers of the same index; texts and limits of all calls lie in lists that the
//         calls and answers point into.
// Units:  tokens, requests, micro-units of cost; milliseconds.
// Errors: every outcome is a QuotaCode.
// Lives:  one frame's calls, or one of REST; lent to one shard at a time. Its lists keep
//         their memory.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "api/limit.hpp"
#include "base/limits.hpp"

namespace sluice::api {

// The outcome of a call. One byte on the wire (proto/sluicegate.capnp, QuotaCode); numbers are
// never reused, zero is never sent. docs/protocol.md has a row for each; a test compares them.
enum class QuotaCode : uint8_t {
  none = 0,
  // Admitted, or done.
  ok = 1,
  unlimited = 2,                // admitted: all its limits are unlimited
  unknown_subject_allowed = 3,  // admitted: subjects without a quota are allowed
  queued = 4,                   // waits; the outcome follows
  // Denied; codes that a later retry may change come first.
  rpd_exceeded = 5,  // a daily limit of requests
  rpm_exceeded = 6,  // a limit of requests per minute
  tpm_exceeded = 7,  // a limit of tokens per minute
  requests_exceeded = 8,
  input_tokens_exceeded = 9,
  output_tokens_exceeded = 10,
  tokens_exceeded = 11,
  cost_exceeded = 12,
  concurrency_exceeded = 13,
  queue_ahead = 14,          // it would fit, but others wait ahead, and it may not wait
  deadline_unmeetable = 15,  // no capacity before its wait limit, for certain
  wait_limit = 16,           // waited as long as allowed
  withdrawn = 17,
  draining = 18,
  waiters_full = 19,
  reservations_full = 20,
  subjects_full = 21,
  // Denied for good.
  id_in_use = 22,        // the client's id names another request, or one that still waits
  exceeds_limit = 23,    // more than a limit allows at all
  blocked = 24,          // a limit that refuses every call
  unknown_subject = 25,  // subjects without a quota are denied
  subjects_apart = 26,   // not given any more
  invalid_subject = 27,  // none, too many, empty, too long, or the same one twice
  // Of a reservation.
  unknown_reservation = 28,  // never made, or ended and forgotten
  already_settled = 29,
  already_cancelled = 30,
  already_expired = 31,
  // Of a quota.
  invalid_quota = 32,
  no_such_quota = 33,  // no quota was put for this subject, so none can be removed
  // Denied; a later retry may change them.
  connection_waiters_full = 34,  // this connection has its share of the waiters
  subject_waiters_full = 35,     // a subject has
  // Of a change of a quota or its usage, where the server keeps its state; a later retry may help.
  not_durable = 36,  // nothing was changed: the state file cannot be written now
  memory_only = 37,  // changed, but the state file could not be written: a restart may undo it
  // Of a call that another node decides; a later retry may help.
  owner_unreachable = 38,  // it does not answer, or cannot be asked
  failed_closed = 39,      // denied for that reason (--peer-failure closed)
};
inline constexpr uint32_t quota_codes_count = 40;

constexpr bool admits(QuotaCode code) noexcept {
  return code == QuotaCode::ok || code == QuotaCode::unlimited ||
         code == QuotaCode::unknown_subject_allowed;
}

// Whether the same call may be admitted later without a change of any quota.
bool may_retry(QuotaCode code) noexcept;

// "tpm_exceeded", and the sentence that explains it (those of the reference where it has them).
std::string_view code_name(QuotaCode) noexcept;
std::string_view code_reason(QuotaCode) noexcept;

enum class QuotaOp : uint8_t {
  reserve,
  check,  // what reserve would answer now; changes and creates nothing
  settle,
  cancel,
  extend,
  record,   // charges usage without asking for admission
  consume,  // charges usage if it fits; no reservation is made
  show,     // a reservation: its subjects, as rows, and its holder
  usage,    // subjects, as rows
  put,      // a subject's quota, until it is removed
  remove,
  page,          // all subjects of `shard`, as rows
  position,      // of a call that waits under the client's id, in the queue of one of its subjects
  holders,       // open reservations of one subject or of all of `shard`, with their holders
  reset,         // forgets what was used; open reservations stay
  reset_all,     // the same for every subject of `shard`
  end_binding,   // ends the reservations bound to a connection that is gone
  end_part,      // a part on another node than its home: settled, or cancelled
  extend_part,   // likewise: its lifetime begins anew
  expire_part,   // the shard's part of a reservation that has expired at its home
  part_fits,     // a shard reports to a waiter's home: its part fits
  part_is_out,   // likewise: its part can never fit
  leave_queues,  // the home reports to a shard: the waiter has left
  leave_node     // likewise to another node, which brings it to its shards
};

// Whether a call is about a reservation by its id; others name subjects, or none.
constexpr bool names_reservation(QuotaOp op) noexcept {
  switch (op) {
    case QuotaOp::settle:
    case QuotaOp::cancel:
    case QuotaOp::extend:
    case QuotaOp::show:
      return true;
    default:
      return false;
  }
}

// Whether it is one shard's call to another, which it names.
constexpr bool names_shard(QuotaOp op) noexcept {
  return op == QuotaOp::expire_part || op == QuotaOp::part_fits || op == QuotaOp::part_is_out ||
         op == QuotaOp::leave_queues;
}

// Whether it is about a part of a reservation whose home is another node.
constexpr bool concerns_part(QuotaOp op) noexcept {
  return op == QuotaOp::end_part || op == QuotaOp::extend_part || op == QuotaOp::expire_part;
}

// Whether it is between the node with a waiter and the nodes with its parts.
constexpr bool concerns_waiter(QuotaOp op) noexcept {
  return op == QuotaOp::part_fits || op == QuotaOp::part_is_out || op == QuotaOp::leave_node;
}

// Whether it is answered in pages, with a cursor.
constexpr bool is_paged(QuotaOp op) noexcept {
  return op == QuotaOp::page || op == QuotaOp::holders;
}

// Whether it changes what an operator decides: the log names the client that did so.
constexpr bool is_administrative(QuotaOp op) noexcept {
  return op == QuotaOp::put || op == QuotaOp::remove || op == QuotaOp::reset ||
         op == QuotaOp::reset_all;
}

// Whether it is admitted or refused, and may wait; what `check` asks about is a reserve.
constexpr bool asks_admission(QuotaOp op) noexcept {
  return op == QuotaOp::reserve || op == QuotaOp::consume;
}

// Whether its amounts are what was used: no reservation is made.
constexpr bool charges_used(QuotaOp op) noexcept {
  return op == QuotaOp::record || op == QuotaOp::consume;
}

// Whether the limits of its subjects decide it, or are charged.
constexpr bool concerns_limits(QuotaOp op) noexcept {
  return asks_admission(op) || op == QuotaOp::check || op == QuotaOp::record;
}

struct Amounts {
  uint64_t requests = 1;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;  // of a reservation: the most there may be
  uint64_t cost = 0;
  bool operator==(const Amounts&) const = default;
};

namespace quota_flag {
inline constexpr uint8_t may_wait = 1;  // wait in the queue instead of being denied
inline constexpr uint8_t waiters_full = flag::waiters_full;
inline constexpr uint8_t draining = 4;      // the server shuts down: no call joins a queue any more
inline constexpr uint8_t wants_limits = 8;  // report every limit of every subject
inline constexpr uint8_t wants_violated = 16;  // report the limits that deny
inline constexpr uint8_t keep_requests = 32;   // cancel: the request was made all the same
inline constexpr uint8_t not_durable = 32;     // put, remove, reset: nobody could keep it now
inline constexpr uint8_t undelivered = 64;     // cancel: the client has not received it
inline constexpr uint8_t cancels = 64;         // end_part: by a cancel
// put: by a node that owned the subject before: a run-time quota that it has got since then stays.
inline constexpr uint8_t handed_over = 64;
// May wait, but its connection has its share of the waiters.
inline constexpr uint8_t connection_waiters_full = flag::connection_waiters_full;
}  // namespace quota_flag

// The amounts that a call gave; the others have their defaults, or stay as they were reserved.
namespace given {
inline constexpr uint8_t requests = 1;
inline constexpr uint8_t input_tokens = 2;
inline constexpr uint8_t output_tokens = 4;
inline constexpr uint8_t cost = 8;
}  // namespace given

struct QuotaCall {
  QuotaOp op = QuotaOp::reserve;
  uint8_t flags = 0;
  uint8_t given_bits = 0;  // bits of `given`
  uint8_t subjects_count = 0;
  uint8_t place = 0;            // of a subject: part_fits: the part's first; position: whose queue
  uint8_t home_shard = 0;       // part_fits, part_is_out to another node: the waiter's there
  ShardId shard = 0;            // decides it; used by the worker
  uint32_t first_subject = 0;   // in QuotaBatch::subjects
  uint32_t lifetime_ms = 0;     // reserve, 0: the server's default; extend, 0: as last given
  uint32_t wait_ms_max = 0;     // may_wait; 0: no limit of its own
  Ticket ticket = no_ticket;    // may_wait
  uint32_t limit = 0;           // page, holders: at most so many rows
  WaiterId waiter = no_waiter;  // part_fits, leave_queues: at the shard that decides it;
                                // leave_node: the place that its call had in its batch
  Amounts amounts;
  uint64_t cached_input_tokens = 0;  // settle, record, consume: a part of the input
  uint64_t reservation = 0;          // settle, cancel, extend, show
  uint64_t binding = 0;              // reserve, end_binding: the connection's; 0: none
  uint64_t cursor = 0;               // page, holders: of the last answer; 0: from the start;
                                     // leave_queues, leave_node: the number of its arrival, and
  int64_t arrival_ns = 0;            // its time: a node that has started again gives it once more
  std::string_view client_id;        // reserve, record, consume, position; empty: none
  std::string_view owner;            // reserve: the holder's name, for people to read
};

// Whether a call may join the queues of its subjects.
constexpr bool may_wait(const QuotaCall& call) noexcept {
  return asks_admission(call.op) && (call.flags & quota_flag::may_wait) != 0;
}

// Whether something is to be found of it when it is admitted: a reservation, or the client's id.
constexpr bool leaves_trace(const QuotaCall& call) noexcept {
  return asks_admission(call.op) || (call.op == QuotaOp::record && !call.client_id.empty());
}

// Whether the most output tokens that there may be are left to the server.
constexpr bool leaves_output_tokens(const QuotaCall& call) noexcept {
  const bool asks = call.op == QuotaOp::reserve || call.op == QuotaOp::check;
  return asks && (call.given_bits & given::output_tokens) == 0;
}

enum class ReservationState : uint8_t {
  none = 0,
  open = 1,
  settled = 2,
  cancelled = 3,
  expired = 4
};
std::string_view state_name(ReservationState) noexcept;

inline constexpr int64_t retry_never = -1;

// Why another node, which decides the call, was not asked or has not answered.
enum class NodeFailure : uint8_t { silent, is_gocc, takes_none };

struct QuotaAnswer {
  QuotaCode code = QuotaCode::none;
  ReservationState state = ReservationState::none;
  bool late = false;             // settle: after its lifetime
  bool limits_left_out = false;  // the batch had no room for all of its reports
  WaiterId waiter = no_waiter;   // queued
  uint32_t first_limit = 0;      // in QuotaBatch::limits
  uint32_t limits_count = 0;
  uint32_t first_row = 0;   // in QuotaBatch::rows
  uint32_t rows_count = 0;  // holders: in QuotaBatch::holders, from first_holder on
  uint64_t reservation = 0;
  int64_t retry_after_ms = 0;  // when asking again may help; retry_never; 0: admitted, or at once
  uint64_t next_cursor = 0;    // page, holders; 0: this was the last
  uint32_t lifetime_ms = 0;    // what is left of it: reserve, extend
  uint32_t first_holder = 0;   // show, holders: in QuotaBatch::holders
  uint32_t position = 0;       // 1: the next one to be served; 0: it waits in no such queue
  // Of a node's failure, for people: which node, plus one. 0: not known here, or there is none.
  uint16_t failed_node_plus_one = 0;
  NodeFailure node_failure = NodeFailure::silent;
  Amounts amounts;  // settle, cancel, show: the reservation's present charge
};

// The present state of one limit. Owns its texts, because it moves between shards.
struct LimitReport {
  uint8_t subject = 0;  // its place among the call's subjects, or of its row
  bool violated = false;
  Metric metric = Metric::requests;
  LimitKind kind = LimitKind::concurrency;
  Ceiling ceiling = Ceiling::number;
  uint8_t name_bytes = 0;
  char name[limits::limit_name_bytes_max] = {};
  uint64_t amount = 0;
  uint64_t used = 0;       // all that is charged; may exceed the amount
  uint64_t reserved = 0;   // the part of it that is still open
  uint64_t remaining = 0;  // never below 0
  int64_t period_ms = 0;   // calendar: of the present period; concurrency: 0
  int64_t reset_ms = 0;    // until its usage is 0 if no call comes; 0: concurrency

  std::string_view name_text() const noexcept { return {name, name_bytes}; }
};

// The answer to a call that waited, with every limit of its subjects. Its session lends it to the
// shard that decides, which writes it before the grant that ends the wait; until then it belongs to
// that shard. Where it is not lent, the grant is all that is known.
struct WaitAnswer {
  QuotaAnswer answer;
  std::vector<LimitReport> limits;  // has room for all of them from the start
};

// A subject as `usage`, `show` and `page` report it.
struct SubjectRow {
  uint32_t name_begin = 0;  // in QuotaBatch::answer_text
  uint32_t name_bytes = 0;
  QuotaSource source = QuotaSource::none;
  uint32_t quota = 0;  // in QuotaBatch::quotas, when source is not none
  uint32_t first_limit = 0;
  uint32_t limits_count = 0;  // as many as the quota has, or none: limits_left_out
  uint32_t open_reservations = 0;
  uint32_t waiting = 0;
};

// A text in QuotaBatch::answer_text.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t bytes = 0;
};

// A reservation as `show` and `holders` report it: its holder and amounts, since when, and for how
// long.
struct HolderRow {
  uint64_t reservation = 0;
  Amounts amounts;  // charged
  QuotaCode admission = QuotaCode::none;
  ReservationState state = ReservationState::none;
  bool late = false;              // it was settled after its lifetime
  bool connection_bound = false;  // open: ends with its connection
  bool has_home = false;          // its home has written what only that knows
  bool is_spread = false;         // other shards have names of its subjects
  uint32_t lifetime_ms = 0;       // open: what is left of it
  int64_t held_ms = 0;            // open: since it was admitted
  TextSpan owner;                 // empty: none was given, or it is forgotten
  uint8_t subjects_count = 0;
  uint8_t subjects_left_out = 0;  // their names are too long for the answer
  uint8_t left_out_bits = 0;      // the same by place, until they are counted
  // The subjects that had a quota when it was made; no other names are kept.
  std::array<TextSpan, limits::call_subjects_max> subjects{};

  // Counts the subjects, which were written at their places in the call, and closes the gaps.
  void pack_subjects() noexcept;
};

// Where a batch of several shards goes: to shards of this node, and to other nodes, which bring it
// to their own shards. Both have numbers, in the order of the stops.
inline constexpr ShardId first_node_stop = limits::shards_max;
constexpr ShardId stop_of_node(uint32_t node) noexcept {
  return static_cast<ShardId>(first_node_stop + node);
}
constexpr bool is_node_stop(uint32_t stop) noexcept {
  return stop >= first_node_stop;
}
constexpr uint32_t node_of_stop(uint32_t stop) noexcept {
  return stop - first_node_stop;
}

// A batch with a call whose subjects several shards have is decided in rounds: every shard is asked
// for its part of each call, the parts make a verdict, and every shard applies it. A call that
// another one's verdict may change is decided in the next round. Others have one pass, `decide`.
enum class Pass : uint8_t {
  decide,    // calls of one shard each
  look,      // what a call leaves to the server
  ask,       // whether a part fits: then the shard holds its amounts
  conclude,  // the verdicts; the last shard that is asked does it in the same step
  apply,     // the verdicts: holds are charged, or dropped; but not at the homes of reservations
  open,      // likewise at these, and where a home remembers a call's id: all parts have theirs
  await,     // at one shard: until its part of a call need not wait for another's verdict
  end,       // after `decide`: parts of reservations that their homes have ended, or extend
  extend,    // after `end`: at homes whose parts on other nodes are extended
  forget,    // at another node than the home, which does not ask for the calls any more
  complete   // after `decide`: rows of reservations that other shards have parts of
};

// One call of such a batch: what the shards have said in this round.
struct SpreadCall {
  static constexpr uint32_t no_hold = 0xFFFF'FFFF;
  // It is to record, or to report, or has a place for a waiter.
  static constexpr uint32_t without_hold = 0xFFFF'FFFE;
  // queued: it waits, or goes on waiting.
  enum class State : uint8_t { undecided, refused, queued, admitted, done };

  std::array<ShardId, limits::call_subjects_max> shards{};  // stops of its subjects
  // Of each shard's part, at the place of the first subject there: its number at the shard.
  std::array<uint32_t, limits::call_subjects_max> holds{};
  // Likewise: its place in the queues, or the one that it gets if the call has to wait. Of a part
  // on another node: the place that the call had in the batch with which it came.
  std::array<WaiterId, limits::call_subjects_max> waiters{};
  State state = State::undecided;
  bool has_quota = false;        // one of its subjects has
  bool limits_anything = false;  // one of their limits does
  bool reservations_full = false;
  bool awaits_own = false;     // the verdict on an earlier call of this batch
  bool awaits_others = false;  // the verdict on a call of another batch, at shard `awaits_at`
  bool is_repeat = false;
  bool is_try = false;          // the call waits already
  bool is_last_try = false;     // it has waited as long as allowed
  uint8_t late_tries = 0;       // tries since then
  uint8_t home_shard = 0;       // of the home, where that is another node
  bool is_unconfirmed = false;  // a node has not confirmed a verdict, and may have charged its part
  ShardId awaits_at = 0;
  uint16_t rounds = 0;                         // with this one
  uint8_t kept_bits = 0;                       // by place: subjects that a record keeps alive
  uint8_t fit_bits = 0;                        // the parts that fit, by their first places
  uint8_t charged_bits = 0;                    // likewise: charged before, under the call's id
  uint8_t problem_place = 0;                   // of the first subject with a problem
  QuotaCode problem = QuotaCode::ok;           // the subject's
  QuotaCode code = QuotaCode::ok;              // the limits', as of quota::Obstacle
  int64_t fits_at_ns = 0;                      // likewise
  int64_t earliest_ns = 0;                     // likewise
  int64_t queue_fits_at_ns = 0;                // when it fits where others wait ahead; 0: nowhere
  QuotaCode no_waiter_code = QuotaCode::none;  // why a shard has no place for it to wait
  uint64_t output_tokens = UINT64_MAX;         // when the call gives none
  uint64_t reservation = 0;                    // once its home holds its part
  uint32_t lifetime_ms = 0;                    // likewise

  ShardId home() const noexcept { return shards[0]; }
  bool awaits() const noexcept { return awaits_own || awaits_others; }
};

// Whether a shard has something of the call to apply.
bool holds_anything(const SpreadCall& call) noexcept;
// Whether another shard, or node, than the home has a place in a queue for it.
bool waits_beside_home(const SpreadCall& call) noexcept;

// The place of a call in the one order of all calls of all nodes: when its batch came to a shard,
// and the number that this shard gave it.
struct Arrival {
  static constexpr uint32_t shard_bit = 46;
  static constexpr uint32_t node_bit = 54;

  int64_t ns = 0;
  uint64_t number = 0;  // the node in the upper 10 bits, then 8 of the shard

  uint32_t node() const noexcept { return static_cast<uint32_t>(number >> node_bit); }
  auto operator<=>(const Arrival&) const = default;
};
inline constexpr Arrival behind_all{.ns = INT64_MAX};

// Of leave_queues and leave_node.
constexpr Arrival arrival_that_leaves(const QuotaCall& call) noexcept {
  return {.ns = call.arrival_ns, .number = call.cursor};
}

// Of the calls that a worker makes itself.
inline constexpr uint64_t no_asker = UINT64_MAX;

// A part of a reservation that a call has ended at its home; or that it extends, on another node.
struct PartEnd {
  uint32_t call = 0;
  ShardId shard = 0;     // a stop
  uint32_t left_ms = 0;  // for which the home remembers it under a client's id
  bool is_sent = false;  // to another node
};

// What a shard reports of a call's limits, until all parts are there.
struct PartReport {
  uint32_t call = 0;
  uint32_t number = 0;  // among those of the part
  LimitReport limit;
};

// The share that another node has in a pass of a batch, on its way there and back.
struct NodeVisit {
  uint64_t number = 0;           // of the round, among those of its sender; 0: it is no such share
  uint64_t sender = 0;           // the worker at home, as in ForwardQuota
  uint32_t home = 0;             // the node that decides
  std::vector<uint32_t> places;  // of its calls, in the batch at home
  std::vector<uint8_t> subject_bits;  // of each call: its subjects on the node that is asked
  bool is_known = false;              // of verdicts: that node still had what it has held
  int64_t clock_ns = 0;               // of its answer: by the clock that orders calls; 0: no answer

  bool is_set() const noexcept { return number != 0; }
};

struct QuotaBatch {
  // The calls.
  std::vector<QuotaCall> calls;
  std::vector<std::string_view> subjects;
  std::vector<Quota> new_quotas;          // put: of the call of the same index; else empty
  std::vector<WaitAnswer*> wait_answers;  // may_wait: likewise, lent until the wait has ended
  Arrival arrival;            // of the first call; each that follows has the next number
  uint64_t asker = no_asker;  // a number of the connection that asks: its calls keep their order
  bool stays_here = false;    // another node has sent the calls: this one decides them

  // The answers.
  std::vector<QuotaAnswer> answers;
  std::vector<LimitReport> limits;  // at most limits::quota_reports_max
  std::vector<SubjectRow> rows;
  std::vector<HolderRow> holders;
  std::vector<Quota> quotas;
  std::string answer_text;
  // What the work of all calls depends on.
  uint32_t limits_checked = 0;    // of their subjects
  uint32_t subjects_fetched = 0;  // that are probably not in the processor's cache

  // Between the shards.
  Pass pass = Pass::decide;
  bool is_last_asked = false;      // the shard that is asked now concludes the round
  bool concluded = false;          // it did, and has applied the verdicts
  bool awaits_verdict = false;     // the shard has decided what it could
  bool ended_claims = false;       // of its calls, the shard has: others may be decided there
  std::vector<SpreadCall> spread;  // as many as calls, or none: no call has several shards
  // The calls without a verdict, in their order: of all in rounds, else of the shard.
  std::vector<uint32_t> undecided;
  uint32_t round_size = 0;      // so many of them, the first, take part in the round
  uint32_t rounds_count = 0;    // begun
  uint32_t calls_repeated = 0;  // that took part in rounds behind the first: their work
  std::vector<PartReport> part_reports;
  uint32_t reports_kept = 0;  // so many of them, the first, are of calls that are done
  std::vector<PartEnd> part_ends;

  NodeVisit visit;

  // For the session alone, as in route::Request.
  uint32_t frame_bytes = 0;
  uint8_t kind = 0;

  std::string_view name_of(const SubjectRow& row) const noexcept {
    return std::string_view(answer_text).substr(row.name_begin, row.name_bytes);
  }
  std::string_view text_of(TextSpan span) const noexcept {
    return std::string_view(answer_text).substr(span.begin, span.bytes);
  }
  Arrival arrival_of(size_t call) const noexcept {
    return {.ns = arrival.ns,
            .number = arrival.number + (visit.places.empty() ? call : visit.places[call])};
  }
  // The calls that take part in the present round.
  std::span<const uint32_t> round() const noexcept { return {undecided.data(), round_size}; }
  void clear() noexcept;
  // Frees the memory of a page of many rows: few calls ask for one, and any batch may be its.
  void free_page() noexcept;
  // Copies every text of the calls, so that the batch outlives the bytes they were read from.
  void own_texts();
  // Makes an empty answer for each call, and empties the lists that answers point into.
  void make_answers();

 private:
  std::string text_;
  bool owns_texts_ = false;
};

}  // namespace sluice::api
