// Watches every call that a worker makes on its quotas: who waits for what and in which order,
// which reservations are open and until when, and how each of them ended.
// Flow:   worker -> WatchedQuotas (watched_quotas.hpp), which it was handed in place of its store
//         -> QuotaWatch -> the real store; then its answers and grants, against lists of its own.
// Shape:  amounts are no business of it (quota_books.hpp). Lists by core.
// Errors: the first disagreement is kept in `failure`.
// Lives:  one per run; outlives the workers and their stores.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oracle.hpp"
#include "quota/quota_decider.hpp"
#include "quota_books.hpp"
#include "quota_reports.hpp"

namespace sluice::simulation {

// What happened to quotas, and how often.
enum class QuotaEvent : uint8_t {
  reserved,
  denied,
  waited,   // joined the lines
  granted,  // served after that
  withdrawn,
  abandoned,  // its client was gone
  refunded,   // served, and its client was gone
  repeated,   // asked again under its id, and told the same
  settled,
  settled_late,
  ended_twice,  // a settle or a cancel again, and told the same
  cancelled,
  extended,
  expired,
  untied,  // ended with its connection
  recorded,
  checked,
  reset,
  put,
  removed,
  apart,        // refused: no common tag
  batched,      // calls that came together
  undelivered,  // cancelled: admitted, and the connection had ended before its answer was sent
  stayed,       // ... and has an id, so that it stays
  left,         // all clients at once: nothing that nobody was told of is open
};
inline constexpr uint32_t quota_events_count = 25;
std::string_view quota_event_name(QuotaEvent event);

class QuotaWatch {
 public:
  QuotaWatch(io::Random& random, QuotaBooks& books, Failure& failure);
  QuotaWatch(const QuotaWatch&) = delete;
  QuotaWatch& operator=(const QuotaWatch&) = delete;

  // The store of the next core, as its worker shall see it.
  std::unique_ptr<quota::QuotaDecider> watch(std::unique_ptr<quota::QuotaDecider> store);

  // When all connections are gone: nothing that was tied to one is open, and nothing without an id
  // that nobody was told of.
  void check_ties();
  void check_undelivered();
  void on_all_left();
  io::TakenWatch& taken_watch() { return given_; }

  // Nothing is left: no reservation is open, nobody waits.
  void check_empty();

  uint32_t open_count() const;
  const std::array<uint64_t, quota_events_count>& events() const { return events_; }

  // What a worker asks of the quotas of this core.
  void decide(api::ShardId core_id, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  bool withdraw(api::ShardId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin);
  bool abandon(api::ShardId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin);
  bool refund(api::ShardId core_id, const api::Permit& permit, base::Now now);
  void drain(api::ShardId core_id, base::Now now);
  void adopt(api::ShardId core_id, policy::QuotaBook& book, base::Now now);
  void run_due(api::ShardId core_id, base::Now now);
  void keep_grants(api::ShardId core_id, size_t count);

 private:
  // What a reserve asked for.
  struct Asked {
    std::vector<std::string> subjects;
    std::string client_id;
    uint64_t binding = 0;
    uint32_t lifetime_ms = 0;
  };

  struct Waiting {
    uint64_t sequence = 0;  // of joining
    Asked asked;
  };

  struct Reserved {
    Asked asked;
    int64_t due_ms = 0;
    api::ReservationState state = api::ReservationState::open;
    bool late = false;
    bool was_repeated = false;
    api::Amounts amounts;  // it ended with
  };

  using TicketName = std::pair<api::ShardId, api::Ticket>;

  struct TestShard {
    explicit TestShard(quota::QuotaDecider& of) : store(of) {}
    quota::QuotaDecider& store;  // the real one
    std::map<TicketName, Waiting> waiting;
    std::map<uint64_t, Reserved> reserved;      // every one there ever was
    std::map<std::string, uint64_t> by_client;  // the last under this id
    std::map<std::string, uint64_t> open;       // of each subject
    uint32_t open_count = 0;
    size_t grants_seen = 0;
  };

  // A reserve that was admitted at once.
  struct Newcomer {
    uint64_t sequence;
    const Asked* asked;
  };

  void decide_some(TestShard& shard, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  void decide_singly(TestShard& shard, api::QuotaBatch& batch, base::Now now, api::ShardId origin);
  void follow(TestShard& shard, const api::QuotaBatch& batch, size_t index, base::Now now,
              api::ShardId origin, std::vector<Newcomer>& newcomers);
  void follow_reserve(TestShard& shard, const api::QuotaBatch& batch, size_t index, base::Now now,
                      api::ShardId origin, std::vector<Newcomer>& newcomers);
  bool follow_repeat(TestShard& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void follow_end(TestShard& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer);
  void follow_undelivered(TestShard& shard, const api::QuotaCall& call,
                          const api::QuotaAnswer& answer);
  void follow_extend(TestShard& shard, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void end_binding(TestShard& shard, uint64_t binding);
  void follow_grants(TestShard& shard, base::Now now);
  void end_granted(TestShard& shard);
  void check_slots(const TestShard& shard, const Asked& asked);
  const Asked* open_up(TestShard& shard, uint64_t id, Asked asked, base::Now now);
  void close(TestShard& shard, Reserved& reserved, api::ReservationState state);
  void check_order(const TestShard& shard, const Asked& asked, uint64_t sequence, const char* who);
  void check_counts(const TestShard& shard);
  void after(TestShard& shard, base::Now now);
  void count(QuotaEvent event) { ++events_[static_cast<uint32_t>(event)]; }

  QuotaBooks& books_;
  QuotaReports given_;
  Failure& failure_;
  const bool single_steps_;
  std::vector<TestShard> shards_;
  uint64_t sequence_ = 0;
  uint64_t ending_tie_ = 0;        // of the call that is followed, if it ends one
  std::vector<uint64_t> granted_;  // by the call that is followed
  std::array<uint64_t, quota_events_count> events_{};
};

}  // namespace sluice::simulation
