// Checks every call that a worker makes on its quotas: the waiters and their order, the open
// reservations and their lifetimes, and how each reservation ended.
// Flow:   worker -> WatchedQuotas (watched_quotas.hpp), which it was given in place of its store
//         -> QuotaWatch -> the real store; then its answers and grants, against lists of its own.
// Shape:  lists by shard. It does not check amounts (quota_books.hpp does).
// Errors: the first disagreement is kept in `failure`.
// Lives:  one per run; outlives the workers and their stores.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oracle.hpp"
#include "quota/quota_decider.hpp"
#include "quota_books.hpp"
#include "quota_reports.hpp"
#include "refusal_reason.hpp"

namespace sluice::simulation {

// Events of quotas, to be counted.
enum class QuotaEvent : uint8_t {
  reserved,
  denied,
  waited,   // was queued
  granted,  // served after that
  withdrawn,
  abandoned,  // waited, and its client left
  refunded,   // served, and its client had left
  repeated,   // a reserve with the same id, which got the same answer
  settled,
  settled_late,
  ended_twice,  // a repeated settle or cancel, which got the same answer
  cancelled,
  extended,
  expired,
  binding_ended,  // ended with its connection
  recorded,
  consumed,
  consumed_late,  // served after a wait
  checked,
  reset,
  put,
  removed,
  batched,      // several calls in one batch
  undelivered,  // cancelled: admitted, and the connection had ended before its answer was sent
  stayed,       // not cancelled then, because it has an id
  left,         // all clients left at once, and no undelivered reservation stayed open
  spread,       // admitted by several shards
  held_back,    // decided in a later round, or tried again, because of another call's hold
  part_ended,   // a part of a reservation, on the word of its home
  part_expired,
  parted,            // a part of a waiter entered the queues of another shard than its home
  explained,         // a refusal or a wait, by what is charged
  explained_beside,  // the same, and others held something at its shard
  left_room,         // admitted, or held, beside what an earlier call awaits
  with_single_task,  // a batch was kept for a verdict, or a waiter tried, by a shard with one task
};
inline constexpr uint32_t quota_events_count = 35;
std::string_view quota_event_name(QuotaEvent event);

class QuotaWatch {
 public:
  QuotaWatch(io::Random& random, QuotaBooks& books, const quota::Options& options,
             Failure& failure);
  QuotaWatch(const QuotaWatch&) = delete;
  QuotaWatch& operator=(const QuotaWatch&) = delete;

  // Each shard has one task for its queries, batches and tries.
  void set_single_task() { has_single_task_ = true; }

  // Wraps the store of the next shard: the result is for its worker.
  std::unique_ptr<quota::QuotaDecider> watch(std::unique_ptr<quota::QuotaDecider> store);

  // When all connections are gone: no connection-bound reservation is open, and no undelivered one
  // without an id.
  void check_bindings();
  void check_undelivered();
  void on_all_left();
  io::TakenWatch& taken_watch() { return reports_; }

  // No reservation is open, and no call waits.
  void check_empty();

  // The same in the usage of every subject: none has a slot, a reserved amount or a waiter.
  void audit(api::ShardId shard_id, base::Now now);

  uint32_t open_count() const;
  // When a lifetime or a wait ends, unless another call comes before.
  int64_t next_due_ms(api::ShardId shard_id) const;
  const std::array<uint64_t, quota_events_count>& events() const { return events_; }

  // The calls of a worker on its store.
  void decide(api::ShardId shard_id, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  bool withdraw(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin);
  bool abandon(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin);
  bool refund(api::ShardId shard_id, const api::RefundClaim& permit, base::Now now);
  void drain(api::ShardId shard_id, base::Now now);
  void adopt(api::ShardId shard_id, policy::QuotaBook& book, base::Now now);
  void run_due(api::ShardId shard_id, base::Now now);
  void keep_grants(api::ShardId shard_id, size_t count);
  void next_try(api::ShardId shard_id, api::QuotaBatch& batch);
  void end_try(api::ShardId shard_id, const api::QuotaBatch& batch, base::Now now);

 private:
  // The contents of a reserve.
  struct Asked {
    std::vector<std::string> subjects;
    std::string client_id;
    std::string owner;
    uint64_t binding = 0;
    uint32_t lifetime_ms = 0;
    bool consumes = false;  // no reservation follows
  };

  struct Waiting {
    uint64_t sequence = 0;  // in the order of queueing
    api::Arrival arrival;
    Asked asked;
    api::WaiterId waiter = api::no_waiter;
    int64_t limit_ms = INT64_MAX;  // when it has waited long enough
    bool is_late = false;          // it has
    bool is_spread = false;        // several shards may have its subjects
    bool is_tried = false;         // they are being asked
    bool is_abandoned = false;     // meanwhile
  };

  struct Reserved {
    Asked asked;
    int64_t due_ms = 0;
    api::ReservationState state = api::ReservationState::open;
    bool late = false;
    bool was_repeated = false;
    bool is_part = false;  // another shard is its home
    api::Amounts amounts;  // it ended with
  };

  using TicketName = std::pair<api::ShardId, api::Ticket>;

  struct StoreRecord {
    explicit StoreRecord(quota::QuotaDecider& of) : store(of) {}
    quota::QuotaDecider& store;  // the wrapped one
    bool drains = false;
    std::map<TicketName, Waiting> waiting;
    std::map<api::WaiterId, Waiting> parts;     // of waiters of other homes
    std::set<CallName> joining;                 // have a place in the queues until the verdict
    std::map<uint64_t, Reserved> reserved;      // all that were ever made
    std::map<std::string, uint64_t> by_client;  // the last under this id
    std::set<std::string> consumed_ids;         // of all that were charged
    std::map<std::string, uint64_t> open;       // of each subject
    std::map<CallName, uint64_t> holds;         // the sequence numbers of the holds
    std::set<CallName> awaiting;                // asked for, and without a verdict or a hold
    uint32_t open_count = 0;
    uint32_t open_parts = 0;
    size_t grants_seen = 0;
  };

  // A reserve that was admitted at once.
  struct Newcomer {
    uint64_t sequence;
    api::Arrival arrival;
    Asked asked;
  };

  void decide_some(StoreRecord& shard, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  void decide_singly(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                     api::ShardId origin);
  void decide_spread(StoreRecord& shard, api::QuotaBatch& batch, base::Now now,
                     api::ShardId origin);
  void follow_spread(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                     const api::SpreadCall& before, base::Now now,
                     std::vector<Newcomer>& newcomers);
  void follow_awaiting(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                       const api::SpreadCall& before, bool asks, base::Now now);
  void set_awaiting(StoreRecord& shard, const CallName& call, bool awaits);
  void check_room_left(StoreRecord& shard, const CallName& call, base::Now now);
  void follow_joining(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                      const api::SpreadCall& before, base::Now now, api::ShardId origin);
  void follow_try(StoreRecord& shard, const api::QuotaBatch& batch, uint64_t sequence,
                  base::Now now);
  static void make_part(StoreRecord& shard, Reserved& part);
  void part_left(StoreRecord& shard, api::WaiterId part);
  Waiting* find_waiter(StoreRecord& shard, api::WaiterId waiter);
  Asked asked_here(const StoreRecord& shard, const api::QuotaBatch& batch, size_t index) const;
  void follow_admitted(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                       base::Now now, std::vector<Newcomer>& newcomers);
  void end_parts(StoreRecord& shard, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  void expire_part(StoreRecord& shard, const api::QuotaCall& call);
  Asked asked_of(const api::QuotaBatch& batch, size_t index) const;
  void follow(StoreRecord& shard, const api::QuotaBatch& batch, size_t index, base::Now now,
              api::ShardId origin, std::vector<Newcomer>& newcomers);
  void begin_wait(StoreRecord& shard, const api::QuotaBatch& batch, size_t index, base::Now now,
                  api::ShardId origin);
  void follow_admission(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                        base::Now now, api::ShardId origin, std::vector<Newcomer>& newcomers);
  void check_refusal(const StoreRecord& shard, const api::QuotaBatch& batch, size_t index);
  bool is_full(const StoreRecord& shard, const api::QuotaBatch& batch, size_t index) const;
  // The step has found something in the way of the call: what is charged, or somebody ahead of it.
  void check_reason(StoreRecord& shard, const api::QuotaBatch& batch, size_t index, base::Now now);
  void check_part(StoreRecord& shard, const api::QuotaBatch& batch, size_t index,
                  const api::SpreadCall& before, base::Now now);
  void explain(StoreRecord& shard, const api::QuotaBatch& batch, size_t index, bool may_be_behind,
               base::Now now);
  bool is_behind(const StoreRecord& shard, const CallName& call) const;
  bool follow_repeat(StoreRecord& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void follow_end(StoreRecord& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer);
  void follow_undelivered(StoreRecord& shard, const api::QuotaCall& call,
                          const api::QuotaAnswer& answer);
  void follow_extend(StoreRecord& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void end_binding(StoreRecord& shard, uint64_t binding);
  void follow_grants(StoreRecord& shard, base::Now now);
  void end_granted(StoreRecord& shard);
  void check_concurrency(const StoreRecord& shard, const Asked& asked);
  bool open_up(StoreRecord& shard, uint64_t id, Asked asked, base::Now now);
  static void note_consumed(StoreRecord& shard, const Asked& asked);
  void check_consumed(StoreRecord& shard, const Asked& asked, uint64_t reservation);
  void close(StoreRecord& shard, Reserved& reserved, api::ReservationState state);
  // `is_ahead(waiting)`: whether a waiter that shares a subject was passed by this one.
  template <typename IsAhead>
  void check_order(const StoreRecord& shard, const Asked& asked, const char* name,
                   IsAhead is_ahead);
  void check_newcomer(const StoreRecord& shard, const Newcomer& newcomer);
  void check_served(const StoreRecord& shard, const Waiting& served);
  void check_counts(const StoreRecord& shard);
  void after(StoreRecord& shard, base::Now now);
  void count(QuotaEvent event) { ++events_[static_cast<uint32_t>(event)]; }
  void count_kept() {
    count(QuotaEvent::held_back);
    if (has_single_task_) count(QuotaEvent::with_single_task);
  }

  QuotaBooks& books_;
  QuotaReports reports_;
  Failure& failure_;
  const quota::Options options_;
  const bool single_steps_;
  bool has_single_task_ = false;
  std::vector<StoreRecord> shards_;
  uint64_t sequence_ = 0;
  uint64_t step_begin_ = 0;        // the sequence number before the step that is followed
  uint64_t ended_binding_ = 0;     // by the call that is followed, if any
  std::vector<uint64_t> granted_;  // by the call that is followed
  std::array<uint64_t, quota_events_count> events_{};
};

}  // namespace sluice::simulation
