// Goal: calls whose subjects several shards have get the answers that one shard would give; no call
//       is refused because of a hold, no limit is exceeded, waiters are served in the order of
//       their arrival, all of them, and nothing stays behind.
// Method: random batches on one store and on several, one batch at a time, answer by answer; then
//         many batches under way at once, whose steps are drawn, with those of waiters that are
//         tried and the calls of stores for one another. While calls come the clock stands still:
//         so a refused call must not fit what is charged in the end. An account of every charge is
//         compared with the stores' usage whenever nothing is under way. SEED=n repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "property/spread_account.hpp"
#include "unit/quota/sharded_stores.hpp"

namespace sluice::quota {
namespace {

using api::Limit;
using api::LimitKind;
using api::Metric;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;

constexpr uint32_t subjects_count = 8;

class SpreadTest {
 public:
  SpreadTest(uint64_t seed, const std::vector<uint32_t>& shards) : random_(seed) {
    for (uint32_t at = 0; at < subjects_count; ++at) names_.push_back("s" + std::to_string(at));
    for (const uint32_t count : shards) {
      sides_.emplace_back(count, Options{.subjects_max = 50,
                                         .reservations_max = 200,
                                         .waiters_max = 500,
                                         .name_seed = seed,
                                         .id_seed = seed});
    }
  }

 protected:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool chance(uint32_t percent) { return below(100) < percent; }

  api::Quota draw_quota() {
    api::Quota quota{.limits = {}, .refund_expired = chance(30), .profile = {}};
    const auto add = [&](const char* name, Metric metric, LimitKind kind, uint64_t amount) {
      quota.limits.push_back({.name = name,
                              .metric = metric,
                              .kind = kind,
                              .amount = amount,
                              .period_ms = int64_t{1'000} << below(3),
                              .time_zone = {}});
    };
    constexpr std::array kinds{LimitKind::fixed, LimitKind::sliding, LimitKind::gcra};
    if (chance(60)) {
      add("tpm", Metric::tokens, kinds[below(3)], 20 + below(150));
    }
    if (chance(40)) {
      add("rpm", Metric::requests, kinds[below(3)], 1 + below(9));
    }
    if (chance(50)) add("slots", Metric::concurrency, LimitKind::concurrency, 1 + below(5));
    if (quota.limits.empty() || chance(20)) {
      add("out", Metric::output_tokens, LimitKind::fixed, below(100));
    }
    return quota;
  }

  void put(const std::string& name, const api::Quota& quota) {
    for (ShardedStores& side : sides_) {
      StoreTask task;
      task.batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
      task.batch.subjects = {name};
      task.batch.new_quotas = {quota};
      side.decide(task, now());
    }
  }

  // 1 to 3 subjects, seldom one twice, and seldom one without a quota.
  void add_call(QuotaBatch& batch, QuotaOp op, const QuotaCall& terms) {
    QuotaCall call = terms;
    call.op = op;
    call.first_subject = static_cast<uint32_t>(batch.subjects.size());
    if (!call.client_id.empty() && !named_.empty() && chance(50)) return repeat(batch, call);
    call.subjects_count = static_cast<uint8_t>(1 + below(3));
    for (uint32_t place = 0; place < call.subjects_count; ++place) {
      const bool repeats = place > 0 && chance(3);
      batch.subjects.push_back(repeats ? batch.subjects.back() : names_[below(names_.size())]);
    }
    const auto own = std::span(batch.subjects).subspan(call.first_subject);
    std::ranges::sort(own);
    if (!chance(3)) call.subjects_count = unique_count(batch, call.first_subject);
    batch.calls.push_back(call);
    if (call.client_id.empty()) return;
    const auto names = std::span(batch.subjects).subspan(call.first_subject);
    named_.push_back({call, {names.begin(), names.end()}});
  }

  // An earlier call with a client's id, with its own flags and ticket; of the batch's kind, so that
  // it may be another call.
  void repeat(QuotaBatch& batch, const QuotaCall& terms) {
    const auto& [first, names] =
        named_[named_.size() - 1 - below(std::min<size_t>(named_.size(), 4))];
    QuotaCall call = first;
    call.op = terms.op;
    if (!api::charges_used(call.op)) call.cached_input_tokens = 0;
    call.first_subject = terms.first_subject;
    call.flags = terms.flags;
    call.ticket = terms.ticket;
    call.wait_ms_max = terms.wait_ms_max;
    batch.subjects.insert(batch.subjects.end(), names.begin(), names.end());
    batch.calls.push_back(call);
  }

  uint8_t unique_count(QuotaBatch& batch, uint32_t first) {
    const auto end = std::unique(batch.subjects.begin() + first, batch.subjects.end());
    batch.subjects.erase(end, batch.subjects.end());
    std::shuffle(batch.subjects.begin() + first, batch.subjects.end(), random_);
    return static_cast<uint8_t>(batch.subjects.size() - first);
  }

  api::Amounts draw_amounts() {
    return {.requests = chance(90) ? 1 : below(4),
            .input_tokens = below(30),
            .output_tokens = below(20)};
  }

  base::Now now() const {
    return {.monotonic_ns = ns_, .wall_ns = ns_ + 1'750'000'000 * base::ns_per_s};
  }

  std::mt19937_64 random_;
  std::vector<std::string> names_;
  std::vector<std::pair<QuotaCall, std::vector<std::string_view>>> named_;  // with clients' ids
  std::deque<ShardedStores> sides_;
  int64_t ns_ = 1'000 * base::ns_per_s;
};

// ------------------------------------------------------------------------------- the same answers

class SameAnswers : public SpreadTest {
 public:
  explicit SameAnswers(uint64_t seed)
      : SpreadTest(seed, {1, 2, 3, 8}), lets_overtake_(seed % 3 == 0) {}

  static constexpr uint64_t steps_max = 400;

  void run() {
    for (const std::string& name : names_) {
      if (!chance(15)) put(name, draw_passing_quota());
    }
    names_.push_back("stranger");
    for (; steps_ < steps_max && goes_on(); ++steps_) {
      if (chance(30)) advance(below(40));
      if (chance(5)) withdraw_one();
      if (chance(6)) change_a_quota();
      if (chance(2)) adopt_a_book();
      ask_one();
      for (ShardedStores& side : sides_) {
        side.finish_own(now());
        side.check_invariants(now());
      }
      expect_same_outcomes();
    }
    if (goes_on()) drain();
  }
  uint64_t positions() const { return positions_; }
  uint64_t steps() const { return steps_; }
  uint64_t overtaken() const { return overtaken_; }

 private:
  bool goes_on() const { return !has_no_order_ && !testing::Test::HasFatalFailure(); }

  // The same batch on every side; reservations are named by the numbers of their calls.
  void ask_one() {
    const uint64_t drawn = below(10);
    QuotaBatch asked;
    std::vector<size_t> ended;
    asked_to_wait_ = 0;
    if (drawn < 5 || ids_.empty()) {
      constexpr std::array ops{QuotaOp::reserve, QuotaOp::reserve, QuotaOp::consume, QuotaOp::check,
                               QuotaOp::record};
      const QuotaOp op = ops[below(ops.size())];
      for (uint64_t count = 1 + below(5); count > 0; --count) {
        add_call(asked, op, draw_terms(op));
        // One behind it in the batch might pass it: several shards may refuse that as queue_ahead.
        if (lets_overtake_ && asked_to_wait_ > 0) break;
      }
    } else {
      const QuotaOp op = drawn < 8    ? QuotaOp::settle
                         : drawn == 8 ? QuotaOp::cancel
                                      : QuotaOp::extend;
      // A settle may free room that the next one takes: only one shard can serve a waiter between.
      const uint64_t count_max = op == QuotaOp::settle ? 1 : 3;
      for (uint64_t count = 1 + below(count_max); count > 0; --count) {
        ended.push_back(ids_.size() - 1 - below(std::min<size_t>(ids_.size(), 12)));
        asked.calls.push_back({.op = op,
                               .given_bits = static_cast<uint8_t>(below(16)),
                               .lifetime_ms = static_cast<uint32_t>(10 * below(200) + 3),
                               .amounts = draw_amounts()});
      }
    }
    std::vector<QuotaBatch> answers;
    for (size_t side = 0; side < sides_.size(); ++side) {
      StoreTask task;
      task.batch = asked;
      for (size_t at = 0; at < ended.size(); ++at) {
        task.batch.calls[at].reservation = ids_[ended[at]][side];
      }
      sides_[side].decide(task, now());
      answers.push_back(std::move(task.batch));
    }
    for (size_t side = 1; side < sides_.size(); ++side) {
      for (size_t at = 0; at < asked.calls.size(); ++at) expect_same(answers[0], answers[side], at);
    }
    if (!ended.empty() || testing::Test::HasFatalFailure()) return;
    keep_ids(answers);
    count_overtaking(answers[0]);
    keep_waiting(answers);
    compare_positions(answers[0]);
    if (chance(30)) earlier_ = answers[0];
    compare_positions(earlier_);
  }

  // A call that waits under an id has the same place in each queue on every side.
  void compare_positions(const QuotaBatch& asked) {
    for (const QuotaCall& call : asked.calls) {
      for (uint8_t place = 0; !call.client_id.empty() && place < call.subjects_count; ++place) {
        const uint32_t position = position_at(sides_[0], asked, call, place);
        positions_ += position > 0 ? 1 : 0;
        for (size_t side = 1; side < sides_.size(); ++side) {
          ASSERT_EQ(position_at(sides_[side], asked, call, place), position) << call.client_id;
        }
      }
    }
  }
  uint32_t position_at(ShardedStores& side, const QuotaBatch& asked, const QuotaCall& call,
                       uint8_t place) {
    QuotaBatch batch;
    batch.subjects = asked.subjects;
    const api::ShardId shard = side.shard_of(asked.subjects[call.first_subject + place]);
    batch.calls = {{.op = QuotaOp::position,
                    .subjects_count = call.subjects_count,
                    .place = place,
                    .shard = shard,
                    .first_subject = call.first_subject,
                    .client_id = call.client_id}};
    batch.make_answers();
    side[shard].decide(batch, now(), 0);
    return batch.answers[0].position;
  }

  // Waits that it rules out end on every side.
  void change_a_quota() {
    const std::string& name = names_[below(names_.size())];
    if (chance(60)) {
      put(name, draw_changed_quota());
    } else {
      ask_all({.op = QuotaOp::remove, .subjects_count = 1}, name);
    }
    for (ShardedStores& side : sides_) side.finish_own(now());
    expect_same_outcomes();
  }
  void ask_all(const QuotaCall& call, std::string_view name) {
    for (ShardedStores& side : sides_) {
      StoreTask task;
      task.batch.calls = {call};
      task.batch.subjects = {name};
      side.decide(task, now());
    }
  }
  void adopt_a_book() {
    policy::QuotaRules rules;
    for (const std::string& name : names_) {
      if (chance(40)) rules.rules.push_back({.subject = name, .quota = draw_changed_quota()});
    }
    if (chance(30)) rules.unknown = policy::UnknownSubjects::deny;
    if (chance(70)) rules.output_tokens = below(60);
    for (ShardedStores& side : sides_) {
      for (uint32_t shard = 0; shard < side.count(); ++shard) {
        side[shard].adopt(books_.emplace_back(rules), now());
      }
      side.run_due(now());
    }
    // A subject that no call names would pass over this book's quota.
    for (const std::string& name : names_)
      ask_all({.op = QuotaOp::usage, .subjects_count = 1}, name);
    expect_same_outcomes();
  }
  // Of several that may pass a head, the order in which shards try them is open. So only one call
  // waits at a time where any may pass: those that pass it come anew.
  api::Quota draw_passing_quota() {
    api::Quota quota = draw_quota();
    if (lets_overtake_) quota.overtakers_max = static_cast<uint32_t>(below(4));
    return quota;
  }
  // Some block, or let few of the amounts pass that are asked for.
  api::Quota draw_changed_quota() {
    api::Quota quota = draw_passing_quota();
    Limit& limit = quota.limits[below(quota.limits.size())];
    if (chance(10)) limit.ceiling = api::Ceiling::block;
    if (chance(30)) limit.amount = below(30);
    return quota;
  }

  QuotaCall draw_terms(QuotaOp op) {
    QuotaCall call{
        .flags = static_cast<uint8_t>((chance(50) ? api::quota_flag::wants_limits : 0) |
                                      (chance(50) ? api::quota_flag::wants_violated : 0)),
        .given_bits = static_cast<uint8_t>(chance(70) ? 15 : 11),
        .lifetime_ms = static_cast<uint32_t>(10 * below(300) + 3),
        .amounts = draw_amounts()};
    if ((call.given_bits & api::given::output_tokens) == 0) call.amounts.output_tokens = 0;
    if (op == QuotaOp::check) return call;
    if (api::charges_used(op) && chance(30)) call.cached_input_tokens = below(30);
    if (chance(20)) call.client_id = ids_of_clients[below(3)];
    const bool is_alone = waiting_.empty() && asked_to_wait_ == 0;
    if (api::asks_admission(op) && chance(50) && (is_alone || !lets_overtake_)) {
      call.flags |= api::quota_flag::may_wait;
      call.ticket = ++tickets_;
      ++asked_to_wait_;
      if (chance(60)) call.wait_ms_max = draw_wait_ms();
    }
    return call;
  }

  // Calls that were admitted although another stands in the queue of one of their subjects.
  void count_overtaking(const QuotaBatch& answered) {
    for (size_t at = 0; lets_overtake_ && at < answered.calls.size(); ++at) {
      const QuotaCall& call = answered.calls[at];
      if (!api::asks_admission(call.op) || !api::admits(answered.answers[at].code)) continue;
      const auto names =
          std::span(answered.subjects).subspan(call.first_subject, call.subjects_count);
      const bool passes = std::ranges::any_of(waiting_, [&](const auto& one) {
        return std::ranges::any_of(names, [&](std::string_view name) {
          return std::ranges::count(one.second.subjects, name) > 0 && has_queue(name);
        });
      });
      overtaken_ += passes ? 1 : 0;
    }
  }
  bool has_queue(std::string_view name) {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::usage, .subjects_count = 1}};
    task.batch.subjects = {name};
    sides_[0].decide(task, now());
    return !task.batch.rows.empty() && task.batch.rows[0].waiting > 0;
  }

  // Each call has a ticket of its own.
  void keep_waiting(const std::vector<QuotaBatch>& answers) {
    for (size_t at = 0; at < answers[0].answers.size(); ++at) {
      if (answers[0].answers[at].code != QuotaCode::queued) continue;
      const QuotaCall& call = answers[0].calls[at];
      if (call.op == QuotaOp::consume) consuming_.insert(call.ticket);
      Waiting& waiting = waiting_[call.ticket];
      const auto names = std::span(answers[0].subjects).subspan(call.first_subject);
      waiting.subjects.assign(names.begin(), names.begin() + call.subjects_count);
      for (size_t side = 0; side < sides_.size(); ++side) {
        const std::string_view first =
            answers[side].subjects[answers[side].calls[at].first_subject];
        waiting.sides.push_back(
            {.home = sides_[side].shard_of(first), .waiter = answers[side].answers[at].waiter});
      }
    }
  }

  void withdraw_one() {
    if (waiting_.empty()) return;
    const auto one = std::next(waiting_.begin(), static_cast<ptrdiff_t>(below(waiting_.size())));
    for (size_t side = 0; side < sides_.size(); ++side) {
      const auto [home, waiter] = one->second.sides[side];
      EXPECT_TRUE(sides_[side][home].withdraw(waiter, one->first, now()));
      sides_[side].finish_own(now());
    }
    expect_same_outcomes();
  }

  void drain() {
    for (ShardedStores& side : sides_) {
      for (uint32_t shard = 0; shard < side.count(); ++shard) side[shard].drain(now());
      side.run_due(now());
    }
    expect_same_outcomes();
    EXPECT_TRUE(waiting_.empty());
  }

  // So many times 10 ms, one by one: what happens in the same millisecond on several shards has no
  // order. Batches come at multiples of 10 ms.
  void advance(uint64_t count) {
    for (uint64_t ms = 0; ms < count * 10 && goes_on(); ++ms) {
      ns_ += base::ns_per_ms;
      for (ShardedStores& side : sides_) side.run_due(now());
      expect_same_outcomes();
    }
  }

  // Waits end in different milliseconds, and none when a lifetime does.
  uint32_t draw_wait_ms() {
    for (;;) {
      const auto wait_ms = static_cast<uint32_t>(10 * below(200) + 5);
      if (wait_ends_.insert(ns_ / base::ns_per_ms + wait_ms).second) return wait_ms;
    }
  }

  // In a step any number of waiters has an outcome, in any order.
  void expect_same_outcomes() {
    std::map<api::Ticket, std::vector<api::Grant>> outcomes;
    for (ShardedStores& side : sides_) {
      for (uint32_t shard = 0; shard < side.count(); ++shard) {
        for (const api::Grant& grant : side[shard].grants())
          outcomes[grant.ticket].push_back(grant);
        side[shard].keep_grants(0);
      }
    }
    for (const auto& [ticket, grants] : outcomes) {
      ASSERT_EQ(waiting_.erase(ticket), 1U);
      ASSERT_EQ(grants.size(), sides_.size())
          << "the outcome of " << ticket << " is not everywhere";
      has_no_order_ |= outcomes.size() > 1 && is_late_on_some(grants);
      if (has_no_order_) return;
      std::vector<uint64_t> ids;
      for (const api::Grant& grant : grants) {
        ASSERT_EQ(api::code_name(grant.code), api::code_name(grants[0].code)) << ticket;
        // One shard first serves those behind a waiter that gives up; several foresee no more than
        // that it leaves.
        if (grant.code != QuotaCode::wait_limit) {
          EXPECT_EQ(grant.detail.retry_after_ms, grants[0].detail.retry_after_ms) << ticket;
        }
        EXPECT_EQ(api::admits(grant.code) && !consuming_.contains(ticket),
                  grant.refund_claim.reservation != 0);
        ids.push_back(grant.refund_claim.reservation);
      }
      if (ids[0] != 0) ids_.push_back(std::move(ids));
    }
    if (testing::Test::HasNonfatalFailure()) FAIL();
  }

  // Its wait ended in the millisecond in which others ahead of it were served: one shard serves
  // those first, several may try it first. From then on the sides differ.
  static bool is_late_on_some(const std::vector<api::Grant>& grants) {
    const auto late = std::ranges::count(grants, QuotaCode::wait_limit, &api::Grant::code);
    const bool others_admit = std::ranges::all_of(grants, [](const api::Grant& grant) {
      return grant.code == QuotaCode::wait_limit || api::admits(grant.code);
    });
    return late > 0 && late < std::ssize(grants) && others_admit;
  }

  void expect_same(const QuotaBatch& one, const QuotaBatch& other, size_t at) {
    const QuotaAnswer &a = one.answers[at], &b = other.answers[at];
    std::string where;
    for (size_t each = 0; each <= at; ++each) where += describe(one, each) + "\n";
    ASSERT_EQ(api::code_name(a.code), api::code_name(b.code)) << where;
    EXPECT_EQ(a.retry_after_ms, b.retry_after_ms) << where;
    EXPECT_EQ(a.state, b.state) << where;
    EXPECT_EQ(a.late, b.late) << where;
    EXPECT_EQ(a.lifetime_ms, b.lifetime_ms) << where;
    EXPECT_EQ(a.amounts, b.amounts) << where;
    EXPECT_EQ(a.reservation == 0, b.reservation == 0) << where;
    ASSERT_EQ(a.limits_count, b.limits_count) << where;
    for (uint32_t limit = 0; limit < a.limits_count; ++limit) {
      const api::LimitReport& c = one.limits[a.first_limit + limit];
      const api::LimitReport& d = other.limits[b.first_limit + limit];
      EXPECT_EQ(c.subject, d.subject) << where;
      EXPECT_EQ(c.name_text(), d.name_text()) << where;
      EXPECT_EQ(c.violated, d.violated) << where;
      // A shard may have charged later calls of the batch before it reports.
      EXPECT_GE(d.used, c.used) << where << int{c.subject} << "." << c.name_text();
      if (one.calls.size() > 1) continue;
      EXPECT_EQ(c.used, d.used) << where;
      EXPECT_EQ(c.reserved, d.reserved) << where;
      EXPECT_EQ(c.reset_ms, d.reset_ms) << where;
    }
    if (testing::Test::HasNonfatalFailure()) FAIL();
  }

  static std::string describe(const QuotaBatch& batch, size_t at) {
    const QuotaCall& call = batch.calls[at];
    std::string text = "call " + std::to_string(at) + " of " + std::to_string(batch.calls.size()) +
                       ", op " + std::to_string(static_cast<int>(call.op)) + ":";
    for (uint32_t place = 0; place < call.subjects_count; ++place) {
      text.append(" ").append(batch.subjects[call.first_subject + place]);
    }
    return text.append(", ").append(api::code_name(batch.answers[at].code));
  }

  void keep_ids(const std::vector<QuotaBatch>& answers) {
    for (size_t at = 0; at < answers[0].answers.size(); ++at) {
      if (answers[0].answers[at].reservation == 0) continue;
      std::vector<uint64_t>& ids = ids_.emplace_back();
      for (const QuotaBatch& side : answers) ids.push_back(side.answers[at].reservation);
    }
  }

  static constexpr std::array<std::string_view, 3> ids_of_clients{"x", "y", "z"};
  std::vector<std::vector<uint64_t>> ids_;  // of each reservation, by side
  struct Place {
    api::ShardId home = 0;
    api::WaiterId waiter = api::no_waiter;
  };
  struct Waiting {
    std::vector<Place> sides;
    std::vector<std::string> subjects;
  };
  std::map<api::Ticket, Waiting> waiting_;
  std::set<api::Ticket> consuming_;  // of those that have waited
  std::set<int64_t> wait_ends_;
  std::deque<policy::QuotaBook> books_;
  const bool lets_overtake_;
  bool has_no_order_ = false;
  api::Ticket tickets_ = 0;
  uint32_t asked_to_wait_ = 0;  // in this batch
  QuotaBatch earlier_;          // one that was asked before
  uint64_t positions_ = 0;
  uint64_t steps_ = 0;
  uint64_t overtaken_ = 0;
};

TEST(Spread, several_shards_answer_like_one) {
  uint64_t positions = 0;
  uint64_t steps = 0;
  uint64_t steps_max = 0;
  uint64_t overtaken = 0;
  for (const uint64_t seed : property_seeds(60)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    SameAnswers test(seed);
    test.run();
    if (testing::Test::HasFatalFailure()) return;
    positions += test.positions();
    steps += test.steps();
    steps_max += SameAnswers::steps_max;
    overtaken += test.overtaken();
  }
  std::printf("%lu of %lu steps, %lu positions, %lu have passed a waiter\n", steps, steps_max,
              positions, overtaken);
  if (std::getenv("SEED") == nullptr) {
    EXPECT_GT(positions, 100U);
    EXPECT_GT(overtaken, 30U);
    EXPECT_GE(steps * 5, steps_max * 4) << "too many runs end where waits have no order";
  }
}

// ----------------------------------------------------------------------- many batches under way

class Interleaved : public SpreadTest {
 public:
  Interleaved(uint64_t seed, uint32_t shards) : SpreadTest(seed, {shards}) {}

  void run() {
    for (const std::string& name : names_) {
      const api::Quota quota = draw_quota();
      put(name, quota);
      account_.put(name, quota, now());
    }
    for (int epoch = 0; epoch < epochs && !testing::Test::HasFatalFailure(); ++epoch) {
      ask_many();
      check_refusals();
      check_account();
      end_all();
      check_account();
      serve_all();
      check_nothing_left();
    }
  }

 private:
  static constexpr int epochs = 8;

  struct UnderWay {
    StoreTask task;
    bool is_try = false;
    uint64_t since = 0;  // in steps
  };

  ShardedStores& stores() { return sides_.front(); }

  // Up to 12 batches at a time, in steps of any order. Nothing is freed: nobody that waits fits.
  void ask_many() {
    const uint64_t granted = granted_;
    for (uint64_t left = 60; left > 0;) {
      if (under_way_.size() >= 12 || !chance(30)) {
        step();
        continue;
      }
      const QuotaOp op = chance(60)   ? QuotaOp::reserve
                         : chance(50) ? QuotaOp::consume
                         : chance(50) ? QuotaOp::check
                                      : QuotaOp::record;
      start_batch(op, 1 + below(6));
      --left;
    }
    finish();
    ASSERT_EQ(granted_, granted) << "a call waited, and fitted";
    stores().check_invariants(now());
  }

  void start_batch(QuotaOp op, uint64_t calls) {
    UnderWay& started = under_way_.emplace_back();
    if (chance(50)) started.task.batch.asker = below(4);
    for (; calls > 0; --calls) {
      QuotaCall terms{.given_bits = 15, .lifetime_ms = 5'000, .amounts = draw_amounts()};
      if (api::asks_admission(op) && chance(40)) {
        terms.flags = api::quota_flag::may_wait;
        terms.ticket = ++tickets_;
      }
      add_call(started.task.batch, op, terms);
    }
    begin(started);
  }

  void begin(UnderWay& started) {
    started.since = steps_;
    stores().start(started.task);
  }

  // A drawn step of one batch, of what a store has for others, or the begin of a try.
  void step() {
    ASSERT_LT(++steps_, 10'000'000U) << "batches wait for one another";
    QuotaStore& store = stores()[static_cast<uint32_t>(below(stores().count()))];
    if (chance(20)) stores().bring_calls(store, now());
    if (store.has_tries() && chance(50)) {
      UnderWay& started = under_way_.emplace_back();
      started.is_try = true;
      started.since = steps_;
      stores().start_try(store, started.task);
    }
    if (!under_way_.empty()) step_one(below(under_way_.size()));
    collect_grants();
  }

  void step_one(size_t place) {
    const auto at = under_way_.begin() + static_cast<ptrdiff_t>(place);
    stores().step(at->task, now());
    if (!at->task.is_decided) return;
    if (at->is_try) {
      const api::SpreadCall& spread = at->task.batch.spread.front();
      tried_ = {.home = spread.home(), .waiter = spread.waiters[0], .since = at->since};
      stores().end_try(at->task, now());
      collect_grants();
      tried_ = {};
    }
    for (size_t call = 0; !at->is_try && call < at->task.batch.calls.size(); ++call) {
      note(at->task.batch, call);
    }
    under_way_.erase(at);
  }

  bool has_steps() {
    if (!under_way_.empty()) return true;
    for (uint32_t shard = 0; shard < stores().count(); ++shard) {
      QuotaStore& store = stores()[shard];
      if (store.has_tries() || !store.outgoing_calls().empty()) return true;
    }
    return false;
  }
  void finish() {
    while (has_steps() && !testing::Test::HasFatalFailure()) step();
    collect_grants();
  }

  // ------------------------------------------------------------------------------ waiting

  struct Waiting {
    std::vector<std::string> subjects;
    QuotaCall call;
    api::Arrival arrival;
    api::ShardId home = 0;
    api::WaiterId waiter = api::no_waiter;
    uint64_t since = 0;  // in steps: when its batch was decided
  };
  struct Tried {
    api::ShardId home = 0;
    api::WaiterId waiter = api::no_waiter;
    uint64_t since = 0;
  };

  void note_waiting(const QuotaBatch& batch, size_t at) {
    const QuotaCall& call = batch.calls[at];
    Waiting waiting{.subjects = subjects_of(batch, at),
                    .call = call,
                    .arrival = batch.arrival_of(at),
                    .home = stores().shard_of(batch.subjects[call.first_subject]),
                    .waiter = batch.answers[at].waiter,
                    .since = steps_};
    waiting_.emplace(call.ticket, std::move(waiting));
  }

  // A grant may come before the rest of its batch is decided.
  void collect_grants() {
    for (uint32_t shard = 0; shard < stores().count(); ++shard) {
      for (const api::Grant& grant : stores()[shard].grants()) early_.push_back(grant);
      stores()[shard].keep_grants(0);
    }
    std::erase_if(early_, [this](const api::Grant& grant) {
      const auto found = waiting_.find(grant.ticket);
      if (found == waiting_.end()) return false;
      const Waiting waiting = std::move(found->second);
      waiting_.erase(found);
      on_grant(grant, waiting);
      return true;
    });
  }

  // Those who came earlier and waited when this one was tried are served first.
  void on_grant(const api::Grant& grant, const Waiting& waiting) {
    ASSERT_TRUE(api::admits(grant.code)) << api::code_name(grant.code);
    ++granted_;
    note_admitted(waiting.call, waiting.subjects, grant.refund_claim.reservation);
    const bool was_tried = waiting.home == tried_.home && waiting.waiter == tried_.waiter;
    const uint64_t tried_at = was_tried ? tried_.since : steps_;
    for (const auto& [ticket, other] : waiting_) {
      if (other.since >= tried_at || waiting.arrival < other.arrival) continue;
      if (is_admitted(other)) continue;
      for (const std::string& subject : waiting.subjects) {
        ASSERT_EQ(std::ranges::count(other.subjects, subject), 0)
            << grant.ticket << " was served before " << ticket << ", which waits for " << subject;
      }
    }
  }

  // Its grant is on the way: shards have it in their queues no more.
  bool is_admitted(const Waiting& waiting) const {
    return std::ranges::any_of(under_way_, [&](const UnderWay& one) {
      if (!one.is_try) return false;
      const api::SpreadCall& spread = one.task.batch.spread.front();
      return spread.home() == waiting.home && spread.waiters[0] == waiting.waiter &&
             api::admits(one.task.batch.answers.front().code);
    });
  }

  // Whoever waits is served at last: reservations end, and time passes.
  void serve_all() {
    for (int round = 0; round < 200 && !testing::Test::HasFatalFailure(); ++round) {
      ns_ += 10 * base::ns_per_s;
      for (uint32_t shard = 0; shard < stores().count(); ++shard) {
        do {
          stores()[shard].run_due(now());
        } while (stores()[shard].next_due_ns() <= ns_);
      }
      account_.expire(now());
      finish();
      check_account();
      if (waiting_.empty() && reserved_.empty()) return;
      end_all();
    }
    ASSERT_TRUE(waiting_.empty()) << waiting_.size() << " are never served";
  }

  static std::vector<std::string> subjects_of(const QuotaBatch& batch, size_t at) {
    const QuotaCall& call = batch.calls[at];
    const auto names = std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
    return {names.begin(), names.end()};
  }

  void note(const QuotaBatch& batch, size_t at) {
    const QuotaCall& call = batch.calls[at];
    const QuotaAnswer& answer = batch.answers[at];
    ASSERT_NE(answer.code, QuotaCode::none);
    if (answer.code == QuotaCode::queued) {
      note_waiting(batch, at);
    } else if (api::names_reservation(call.op)) {
      account_.end(call, answer, now());
    } else if (api::admits(answer.code)) {
      if (call.op != QuotaOp::check) {
        note_admitted(call, subjects_of(batch, at), answer.reservation);
      }
    } else if (answer.code != QuotaCode::invalid_subject) {
      refused_.push_back(
          {.amounts = call.amounts, .subjects = subjects_of(batch, at), .code = answer.code});
    }
  }

  void note_admitted(const QuotaCall& call, const std::vector<std::string>& subjects,
                     uint64_t reservation) {
    ASSERT_EQ(reservation != 0, call.op == QuotaOp::reserve);
    if (reservation == 0) return account_.charge(subjects, call, now());
    reserved_.push_back(reservation);
    account_.open(reservation, subjects, call, now());
  }

  // The clock stands still and nothing was refunded: what was in the way of a refused call still
  // is.
  void check_refusals() {
    for (const Refused& refused : refused_) {
      StoreTask task;
      task.batch.calls = {{.op = QuotaOp::check,
                           .given_bits = 15,
                           .subjects_count = static_cast<uint8_t>(refused.subjects.size()),
                           .amounts = refused.amounts}};
      task.batch.subjects.assign(refused.subjects.begin(), refused.subjects.end());
      stores().decide(task, now());
      ASSERT_FALSE(api::admits(task.batch.answers[0].code))
          << "refused with " << api::code_name(refused.code) << ", and fits";
    }
    refused_.clear();
  }

  // No call is under way: usage is what the account has, and within the limits.
  void check_account() {
    if (testing::Test::HasFatalFailure()) return;
    for (const std::string& name : names_) account_.compare(name, usage(name), now());
  }

  QuotaBatch usage(const std::string& name) {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::usage, .subjects_count = 1}};
    task.batch.subjects = {name};
    stores().decide(task, now());
    return std::move(task.batch);
  }

  // Some are settled or cancelled, some twice, while waiters are served; the others expire.
  void end_all() {
    for (const uint64_t reservation : std::exchange(reserved_, {})) {
      const QuotaCall end = draw_end(reservation);
      for (int again = 0; again < 2 && !chance(30); ++again) {
        UnderWay& started = under_way_.emplace_back();
        started.task.batch.calls = {end};
        begin(started);
        for (uint64_t count = below(4); count > 0; --count) step();
      }
    }
    finish();
  }

  QuotaCall draw_end(uint64_t reservation) {
    QuotaCall end{.op = chance(50) ? QuotaOp::settle : QuotaOp::cancel, .reservation = reservation};
    if (end.op == QuotaOp::settle) {
      end.given_bits = static_cast<uint8_t>(below(16));
      end.amounts = draw_amounts();
    } else if (chance(30)) {
      end.flags = api::quota_flag::keep_requests;
    }
    return end;
  }

  void check_nothing_left() {
    ns_ += 1'000 * base::ns_per_s;  // what was charged is past, also what was above a limit
    for (const std::string& name : names_) {
      const QuotaBatch batch = usage(name);
      ASSERT_EQ(batch.rows[0].open_reservations, 0U) << name;
      ASSERT_EQ(batch.rows[0].waiting, 0U) << name;
      for (const api::LimitReport& limit : batch.limits) {
        ASSERT_EQ(limit.used, 0U) << name << "." << limit.name_text();
        ASSERT_EQ(limit.reserved, 0U) << name << "." << limit.name_text();
      }
    }
    for (uint32_t shard = 0; shard < stores().count(); ++shard) {
      ASSERT_FALSE(stores()[shard].has_claims());
      ASSERT_EQ(stores()[shard].reservations_count(), 0U);
    }
  }

  struct Refused {
    api::Amounts amounts;
    std::vector<std::string> subjects;
    QuotaCode code;
  };
  SpreadAccount account_;
  std::vector<uint64_t> reserved_;
  std::vector<Refused> refused_;
  std::deque<UnderWay> under_way_;
  std::map<api::Ticket, Waiting> waiting_;
  std::vector<api::Grant> early_;
  Tried tried_;
  api::Ticket tickets_ = 0;
  uint64_t granted_ = 0;
  uint64_t steps_ = 0;
};

TEST(Spread, calls_under_way_are_charged_once_and_never_refused_because_of_a_hold) {
  for (const uint64_t seed : property_seeds(50)) {
    for (const uint32_t shards : {2U, 3U, 8U}) {
      SCOPED_TRACE("SEED=" + std::to_string(seed) + ", shards " + std::to_string(shards));
      Interleaved(seed, shards).run();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace sluice::quota
