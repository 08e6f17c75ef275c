// A change of many reservations or waiters is done in steps, with the same outcome as in one go;
// meanwhile no waiter overtakes another.
// Method: random calls, most of them with a wait, to a store that does next to nothing in a step
// and to one that does everything, which have to end alike; and to one that gets calls without
// finishing its steps, with its queues followed by hand. Between calls nobody waits in vain: a
// check of the same amounts finds nothing that would never go. SEED=n repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "quota/quota_store.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::Ticket;
using api::Verdict;
using Names = std::vector<std::string>;

constexpr std::array<const char*, 4> all_names{"{t}a", "{t}b", "{t}c", "{t}d"};
constexpr uint64_t bindings = 3;
// What slides frees tokens at each fifteenth of it, and waits end at odd milliseconds (Caller).
constexpr uint64_t period_ms = 15 * 66;

// With `overtaking`, some let waiters overtake the heads of their queues.
api::Quota some_quota(Dice& dice, bool overtaking) {
  api::Limit tokens{.name = "tokens",
                    .metric = api::Metric::tokens,
                    .kind = dice.percent(50) ? api::LimitKind::fixed : api::LimitKind::sliding,
                    .amount = 5 + dice.below(60),
                    .period_ms = period_ms,
                    .time_zone = {}};
  if (dice.percent(5)) tokens.ceiling = api::Ceiling::unlimited;
  const api::Limit slots{.name = "slots",
                         .metric = api::Metric::concurrency,
                         .kind = api::LimitKind::concurrency,
                         .amount = 1 + dice.below(12),
                         .time_zone = {}};
  return {.limits = {tokens, slots},
          .refund_expired = dice.percent(30),
          .overtakers_max = overtaking ? static_cast<uint32_t>(dice.below(5)) : 0,
          .profile = {}};
}

// A store, and its callers' reservations and waiters under numbers of their own.
class Side {
 public:
  Side(uint64_t seed, uint32_t step_work)
      : store(Options{.subjects_max = 8,
                      .reservations_max = 4'096,
                      .waiters_max = 512,
                      .step_work = step_work,
                      .name_seed = seed,
                      .id_seed = seed}) {}

  QuotaAnswer ask(const QuotaCall& call, const Names& names, const api::Quota& quota,
                  base::Now now) {
    batch_.clear();
    batch_.calls.push_back(call);
    batch_.calls[0].subjects_count = static_cast<uint8_t>(names.size());
    for (const std::string& name : names) batch_.subjects.push_back(name);
    if (call.op == QuotaOp::put) batch_.new_quotas.push_back(quota);
    batch_.make_answers();
    store.decide(batch_, now);
    return batch_.answers[0];
  }
  // Until nothing is left to do at this time.
  void finish(base::Now now) {
    do {
      store.run_due(now);
    } while (store.next_due_ns() <= now.monotonic_ns);
  }
  std::map<Ticket, QuotaCode> fetch_outcomes() {
    std::map<Ticket, QuotaCode> reported;
    for (const api::Grant& grant : store.grants()) {
      reported[grant.ticket] = grant.code;
      reservations[grant.ticket] = grant.refund_claim.reservation;
      waiters.erase(grant.ticket);
    }
    store.keep_grants(0);
    return reported;
  }
  std::vector<std::pair<uint64_t, uint32_t>> usage(base::Now now) {
    std::vector<std::pair<uint64_t, uint32_t>> reported;
    for (const char* name : all_names) {
      ask({.op = QuotaOp::usage}, {name}, {}, now);
      for (const api::LimitReport& report : batch_.limits) reported.emplace_back(report.used, 0);
      for (const api::SubjectRow& row : batch_.rows) {
        reported.emplace_back(row.open_reservations, row.waiting);
      }
    }
    return reported;
  }

  QuotaStore store;
  std::map<uint64_t, uint64_t> reservations;  // by the ticket of the call
  std::map<Ticket, api::WaiterId> waiters;

 private:
  QuotaBatch batch_;
};

// The next call, the same for every side.
struct Step {
  QuotaCall call;
  Names names;
  api::Quota quota;
  uint64_t of = 0;  // an earlier ticket
};

// Ends at the same time have no order, and a waiter that is checked later may find more room: so
// lifetimes end in even milliseconds, and waits in odd ones of their own.
class Caller {
 public:
  Caller(uint64_t seed, bool overtaking) : dice_(seed), overtaking_(overtaking) {}

  base::Now now() const {
    return {.monotonic_ns = ms_ * 1'000'000,
            .wall_ns = 1'750'000'000'000'000'000 + ms_ * 1'000'000};
  }
  // Moves to the next call, or to the work that is due before it; true: to the call.
  bool advance(int64_t due_ns) {
    const bool arrives = due_ns >= call_ms_ * 1'000'000;
    ms_ = arrives ? call_ms_ : std::max(ms_, base::ceil_ms(due_ns));
    return arrives;
  }
  Step next() {
    if (dice_.percent(20)) call_ms_ += 2 * dice_.between(0, 200);
    const uint64_t kind = dice_.below(100);
    if (kind < 62) return reserve();
    Step step{.call = {}, .names = {}, .quota = {}, .of = 1 + dice_.below(tickets_ + 1)};
    if (kind < 72) {
      step.call = {.op = QuotaOp::settle,
                   .given_bits = api::given::input_tokens,
                   .amounts = {.input_tokens = dice_.below(12)}};
    } else if (kind < 80) {
      step.call = {.op = QuotaOp::cancel};
    } else if (kind < 84) {
      step.call = {.op = QuotaOp::end_binding, .binding = 1 + dice_.below(bindings)};
    } else if (kind < 90) {
      step.call = {.op = QuotaOp::put};
      step.names = {all_names[dice_.below(all_names.size())]};
      step.quota = some_quota(dice_, overtaking_);
    } else if (kind < 93) {
      step.call = {.op = dice_.percent(50) ? QuotaOp::reset : QuotaOp::remove};
      step.names = {all_names[dice_.below(all_names.size())]};
    } else if (kind < 94) {
      step.call = {.op = QuotaOp::reset_all};
    } else {
      leaves_ = dice_.percent(50);
      step.call = {.op = QuotaOp::page};  // stands for a waiter that leaves its queue
    }
    return step;
  }
  bool leaves_silently() const { return leaves_; }
  bool percent(uint64_t chance) { return dice_.percent(chance); }

 private:
  Step reserve() {
    Step step;
    const uint64_t first = dice_.below(all_names.size());
    const uint64_t count = dice_.percent(60) ? 1 : 2 + dice_.below(2);
    for (uint64_t index = 0; index < count; ++index) {
      step.names.emplace_back(all_names[(first + index) % all_names.size()]);
    }
    step.call = {.op = dice_.percent(75) ? QuotaOp::reserve : QuotaOp::consume,
                 .given_bits = 15,
                 .lifetime_ms = static_cast<uint32_t>(2 * dice_.between(50, 1'500)),
                 .ticket = static_cast<Ticket>(++tickets_),
                 .amounts = {.input_tokens = dice_.below(12)}};
    if (dice_.percent(85)) {
      step.call.flags = api::quota_flag::may_wait;
    } else if (step.call.op == QuotaOp::reserve) {
      step.call.binding = 1 + dice_.below(bindings);
    }
    if (dice_.percent(40)) step.call.wait_ms_max = some_wait_ms();
    return step;
  }
  uint32_t some_wait_ms() {
    int64_t wait_ms = 1 + 2 * dice_.between(0, 450);
    while (!wait_ends_ms_.insert(call_ms_ + wait_ms).second) wait_ms += 2;
    return static_cast<uint32_t>(wait_ms);
  }

  Dice dice_;
  const bool overtaking_;
  std::set<int64_t> wait_ends_ms_;
  int64_t ms_ = 1'000;
  int64_t call_ms_ = 1'000;
  uint64_t tickets_ = 0;
  bool leaves_ = false;
};

// Makes the call on one side, with that side's own reservation or waiter.
QuotaAnswer take_step(Side& side, const Step& step, bool silently, base::Now now) {
  QuotaCall call = step.call;
  if (call.op == QuotaOp::page) {
    const auto waiter = side.waiters.find(static_cast<Ticket>(step.of));
    if (waiter == side.waiters.end()) return {};
    const auto [ticket, index] = *waiter;
    side.waiters.erase(waiter);
    if (silently) {
      side.store.abandon(index, ticket, now);
    } else {
      side.store.withdraw(index, ticket, now);
    }
    return {};
  }
  if (api::names_reservation(call.op)) {
    const auto found = side.reservations.find(step.of);
    if (found == side.reservations.end()) return {};
    call.reservation = found->second;
  }
  const QuotaAnswer answer = side.ask(call, step.names, step.quota, now);
  if (api::asks_admission(call.op)) {
    if (answer.reservation != 0) side.reservations[call.ticket] = answer.reservation;
    if (answer.code == QuotaCode::queued) side.waiters[call.ticket] = answer.waiter;
  }
  return answer;
}

// The calls that wait, with those of their subjects that had a quota when they came.
class AskedBefore {
 public:
  void note_quota(const QuotaCall& call, const QuotaAnswer& answer, const Names& names) {
    if (answer.code != QuotaCode::ok) return;
    if (call.op == QuotaOp::put) limited_.insert(names[0]);
    if (call.op == QuotaOp::remove) limited_.erase(names[0]);
  }
  void note_waiter(const Step& step) {
    Asked& asked = waiting_[step.call.ticket];
    asked.call = step.call;
    asked.call.op = QuotaOp::check;
    for (const std::string& name : step.names) {
      if (limited_.contains(name)) asked.names.push_back(name);
    }
  }
  // When nothing is left to do each of them may be admitted later.
  void expect_none_in_vain(Side& side, base::Now now) {
    for (const auto& [ticket, waiter] : side.waiters) {
      const Asked& asked = waiting_.at(ticket);
      const QuotaAnswer answer = side.ask(asked.call, asked.names, {}, now);
      ASSERT_NE(answer.retry_after_ms, api::retry_never)
          << ticket << " waits in vain: " << api::code_name(answer.code);
    }
  }

 private:
  struct Asked {
    QuotaCall call;
    Names names;
  };
  std::set<std::string> limited_;
  std::map<Ticket, Asked> waiting_;
};

void compare(uint64_t seed, int steps) {
  Caller caller(seed, false);  // overtaking depends on the order of the checks
  Side slow(seed, static_cast<uint32_t>(1 + seed % 7));
  Side whole(seed, 1'000'000);
  base::Now now = caller.now();
  AskedBefore asked;
  for (int count = 0; count < steps; ++count) {
    const Step step = caller.next();
    for (bool arrives = false; !arrives;) {
      arrives = caller.advance(std::min(slow.store.next_due_ns(), whole.store.next_due_ns()));
      now = caller.now();
      for (Side* side : {&slow, &whole}) side->finish(now);
    }
    const QuotaAnswer one = take_step(slow, step, caller.leaves_silently(), now);
    const QuotaAnswer other = take_step(whole, step, caller.leaves_silently(), now);
    ASSERT_EQ(one.code, other.code) << count;
    ASSERT_EQ(one.retry_after_ms, other.retry_after_ms) << count;
    slow.store.check_invariants(now);
    for (Side* side : {&slow, &whole}) side->finish(now);
    asked.note_quota(step.call, one, step.names);
    if (one.code == QuotaCode::queued) asked.note_waiter(step);
    ASSERT_EQ(slow.fetch_outcomes(), whole.fetch_outcomes()) << count;
    asked.expect_none_in_vain(whole, now);
    ASSERT_EQ(slow.usage(now), whole.usage(now)) << count;
  }
  slow.store.drain(now);
  whole.store.drain(now);
  for (Side* side : {&slow, &whole}) side->finish(now);
  ASSERT_EQ(slow.fetch_outcomes(), whole.fetch_outcomes());
  ASSERT_EQ(slow.store.waiters_count(), 0U);
}

TEST(QuotaSteps, have_the_same_outcome_as_a_single_step) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    compare(seed, 1'000);
    if (testing::Test::HasFatalFailure()) return;
  }
}

bool share_one(const Names& some, const Names& others) {
  return std::any_of(some.begin(), some.end(), [&](const std::string& name) {
    return std::find(others.begin(), others.end(), name) != others.end();
  });
}

// The waiters of all queues, in the order of arrival.
class Queues {
 public:
  void join(Ticket ticket, const Names& names) { waiting_[ticket] = names; }
  void leave(Ticket ticket) { waiting_.erase(ticket); }
  // Tickets are counted up.
  bool overtakes(Ticket ticket, const Names& names) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& waiter) {
      const auto& [other, others] = waiter;
      return other < ticket && share_one(names, others);
    });
  }
  const Names& names_of(Ticket ticket) const { return waiting_.at(ticket); }
  bool holds(Ticket ticket) const { return waiting_.contains(ticket); }
  size_t count() const { return waiting_.size(); }
  // The waiters that head all their queues.
  std::vector<Ticket> heads() const {
    std::vector<Ticket> found;
    for (const auto& [ticket, names] : waiting_) {
      if (!overtakes(ticket, names)) found.push_back(ticket);
    }
    return found;
  }

 private:
  std::map<Ticket, Names> waiting_;
};

void follow(Side& side, Queues& queues, bool overtaking) {
  for (const api::Grant& grant : side.store.grants()) {
    ASSERT_TRUE(queues.holds(grant.ticket));
    const Names names = queues.names_of(grant.ticket);
    queues.leave(grant.ticket);
    if (grant.verdict != Verdict::approved || overtaking) continue;
    ASSERT_FALSE(queues.overtakes(grant.ticket, names)) << grant.ticket;
  }
  side.fetch_outcomes();
  ASSERT_EQ(side.store.waiters_count(), queues.count());
}

// The heads of all their queues that would fit if nothing else waited.
std::vector<Ticket> heads_that_would_fit(Side& side, const Queues& queues,
                                         const std::map<Ticket, QuotaCall>& calls, base::Now now) {
  std::vector<Ticket> found;
  for (const Ticket ticket : queues.heads()) {
    QuotaCall call = calls.at(ticket);
    call.op = QuotaOp::check;
    const QuotaCode code = side.ask(call, queues.names_of(ticket), {}, now).code;
    if (code == QuotaCode::queue_ahead || api::admits(code)) found.push_back(ticket);
  }
  return found;
}

// A subject without a quota has no queue: no call removes a quota here. Where some waiters may
// overtake those with a longer wait, no newcomer overtakes a waiter that is next.
void check_order(uint64_t seed, int steps, bool overtaking) {
  Caller caller(seed, overtaking);
  Side side(seed, static_cast<uint32_t>(1 + seed % 5));
  Queues queues;
  std::map<Ticket, QuotaCall> calls;
  base::Now now = caller.now();
  Dice quotas(seed);
  for (const char* name : all_names)
    side.ask({.op = QuotaOp::put}, {name}, some_quota(quotas, overtaking), now);
  for (int count = 0; count < steps; ++count) {
    const Step step = caller.next();
    caller.advance(base::never_ns);
    now = caller.now();
    if (caller.percent(30)) side.store.run_due(now);
    follow(side, queues, overtaking);
    if (testing::Test::HasFatalFailure()) return;
    if (step.call.op == QuotaOp::remove) continue;
    if (step.call.op == QuotaOp::page && caller.leaves_silently()) {
      queues.leave(static_cast<Ticket>(step.of));
    }
    std::vector<Ticket> first;
    if (overtaking) first = heads_that_would_fit(side, queues, calls, now);
    const QuotaAnswer answer = take_step(side, step, caller.leaves_silently(), now);
    if (answer.code == QuotaCode::queued) {
      queues.join(step.call.ticket, step.names);
      calls[step.call.ticket] = step.call;
    }
    if (step.call.op == QuotaOp::reserve && api::admits(answer.code)) {
      if (!overtaking) {
        ASSERT_FALSE(queues.overtakes(step.call.ticket, step.names)) << count;
      }
      for (const Ticket ticket : first) {
        ASSERT_FALSE(share_one(step.names, queues.names_of(ticket))) << count << ' ' << ticket;
      }
    }
    side.store.check_invariants(now);
  }
  side.store.drain(now);
  side.finish(now);
  follow(side, queues, overtaking);
  ASSERT_EQ(queues.count(), 0U);
}

TEST(QuotaSteps, no_waiter_overtakes_another_meanwhile) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    check_order(seed, 1'000, false);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(QuotaSteps, no_newcomer_overtakes_a_waiter_that_is_next) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    check_order(seed, 1'000, true);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::quota
