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
#include "quota_told.hpp"

namespace sluice::simulation {

// What happened to quotas, and how often.
enum class QuotaEvent : uint8_t {
  reserved,
  denied,
  waited,   // joined the lines
  granted,  // served after that
  withdrawn,
  abandoned,   // its client was gone
  given_back,  // served, and its client was gone
  repeated,    // asked again under its id, and told the same
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
  apart,    // refused: no common tag
  batched,  // calls that came together
  untold,   // cancelled: admitted, and the connection had ended before its answer was sent
  stayed,   // ... and has an id, so that it stays
  left,     // all clients at once: nothing that nobody was told of is open
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
  void check_untold();
  void on_all_left();
  io::TakenWatch& taken_watch() { return told_; }

  // Nothing is left: no reservation is open, nobody waits.
  void check_empty();

  uint32_t open_count() const;
  const std::array<uint64_t, quota_events_count>& events() const { return events_; }

  // What a worker asks of the quotas of this core.
  void decide(api::CoreId core_id, api::QuotaBatch& batch, base::Now now, api::CoreId origin);
  bool withdraw(api::CoreId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::CoreId origin);
  bool abandon(api::CoreId core_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::CoreId origin);
  bool refund(api::CoreId core_id, const api::Permit& permit, base::Now now);
  void drain(api::CoreId core_id, base::Now now);
  void adopt(api::CoreId core_id, policy::QuotaBook& book, base::Now now);
  void run_due(api::CoreId core_id, base::Now now);
  void keep_grants(api::CoreId core_id, size_t count);

 private:
  // What a reserve asked for.
  struct Asked {
    std::vector<std::string> subjects;
    std::string client_id;
    uint64_t tie = 0;
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

  using TicketName = std::pair<api::CoreId, api::Ticket>;

  struct Core {
    explicit Core(quota::QuotaDecider& of) : store(of) {}
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

  void decide_some(Core& core, api::QuotaBatch& batch, base::Now now, api::CoreId origin);
  void decide_singly(Core& core, api::QuotaBatch& batch, base::Now now, api::CoreId origin);
  void follow(Core& core, const api::QuotaBatch& batch, size_t index, base::Now now,
              api::CoreId origin, std::vector<Newcomer>& newcomers);
  void follow_reserve(Core& core, const api::QuotaBatch& batch, size_t index, base::Now now,
                      api::CoreId origin, std::vector<Newcomer>& newcomers);
  bool follow_repeat(Core& core, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void follow_end(Core& core, const api::QuotaCall& call, const api::QuotaAnswer& answer);
  void follow_untold(Core& core, const api::QuotaCall& call, const api::QuotaAnswer& answer);
  void follow_extend(Core& core, const api::QuotaCall& call, const api::QuotaAnswer& answer,
                     base::Now now);
  void end_tie(Core& core, uint64_t tie);
  void follow_grants(Core& core, base::Now now);
  void end_granted(Core& core);
  void check_slots(const Core& core, const Asked& asked);
  const Asked* open_up(Core& core, uint64_t id, Asked asked, base::Now now);
  void close(Core& core, Reserved& reserved, api::ReservationState state);
  void check_order(const Core& core, const Asked& asked, uint64_t sequence, const char* who);
  void check_counts(const Core& core);
  void after(Core& core, base::Now now);
  void count(QuotaEvent event) { ++events_[static_cast<uint32_t>(event)]; }

  QuotaBooks& books_;
  QuotaTold told_;
  Failure& failure_;
  const bool single_steps_;
  std::vector<Core> cores_;
  uint64_t sequence_ = 0;
  uint64_t ending_tie_ = 0;        // of the call that is followed, if it ends one
  std::vector<uint64_t> granted_;  // by the call that is followed
  std::array<uint64_t, quota_events_count> events_{};
};

}  // namespace sluice::simulation
