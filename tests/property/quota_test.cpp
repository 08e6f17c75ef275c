// The store never admits more than every limit allows, refuses no more than its stated error
// explains, and reports usage, concurrency, reservations and their holders correctly.
// Method: millions of random calls with a virtual clock, over all kinds of limits, against a model
// that remembers every charge for ever (quota_model.hpp); wall clocks jump, days have 23 and 25
// hours. SEED=n repeats a run.
#include "quota/quota_store.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "limiter/steady_wall.hpp"
#include "policy/quota_book.hpp"
#include "property/quota_model.hpp"
#include "property/seeds.hpp"

namespace sluice::quota {
namespace {

using api::Amounts;
using api::Limit;
using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

constexpr int64_t s_ns = 1'000'000'000;

// The clocks run around these: days of 23 and 25 hours, a leap day, a year's end, no change at all.
constexpr std::array<int64_t, 6> wall_starts_s{
    1'583'049'600,  // 2020-03-01, behind a leap day
    1'615'700'000,  // 2021-03-14, Los Angeles goes forward
    1'636'250'000,  // 2021-11-07, and back
    1'709'160'000,  // 2024-02-28, before a leap day
    1'704'060'000,  // 2023-12-31
    1'750'000'000,
};

using Names = std::vector<std::string>;

struct Held {
  Names subjects;
  Amounts amounts;
  ReservationState state = ReservationState::open;
  int64_t due_ms = 0;
  uint32_t lifetime_ms = 0;
  std::set<std::string> refunded;
  std::string client_id;
  std::string owner;
  int64_t since_ns = 0;
};

// A consume or record under a client's id.
struct Used {
  QuotaOp op;
  Names subjects;
  Amounts amounts;
  uint64_t cached;
  bool operator==(const Used&) const = default;
};

struct RememberedUse {
  Used used;
  int64_t due_ms;
};

struct SubjectModel {
  Quota quota;
  std::map<std::string, LimitModel> limits;
  uint32_t open = 0;
};

class World {
 public:
  explicit World(uint64_t seed)
      : dice_(seed),
        store_(std::make_unique<QuotaStore>(Options{.subjects_max = 64,
                                                    .reservations_max = 8'192,
                                                    .waiters_max = 64,
                                                    .name_seed = seed,
                                                    .id_seed = seed})) {
    wall_ns_ =
        wall_starts_s[dice_.below(wall_starts_s.size())] * s_ns + dice_.between(0, 90'000) * s_ns;
    ns_ = dice_.between(0, 1'000) * s_ns / 7;
    all_slide_ = dice_.percent(30);
    scale_ = std::array<int64_t, 4>{200'000, 20'000'000, 2 * s_ns, 900 * s_ns}[dice_.below(4)];
    tick();
    for (const char* name : {"{t}a", "{t}b", "{t}c"}) put(name);
  }

  void run(int calls) {
    for (int call = 0; call < calls && !testing::Test::HasFailure(); ++call) {
      step();
      if (dice_.percent(30)) inspect_a_subject();
      if (dice_.percent(3)) check_holders();
      if (dice_.percent(1)) store_->check_invariants(now());
    }
    store_->check_invariants(now());
  }

 private:
  base::Now now() const { return {.monotonic_ns = ns_, .wall_ns = wall_ns_}; }
  int64_t now_ms() const { return ns_ / 1'000'000; }

  void tick() { steady_ns_ = wall_.at(now()); }

  void advance() {
    if (dice_.percent(40)) {
      const int64_t step =
          dice_.percent(2) ? dice_.between(0, scale_ * 100) : dice_.between(0, scale_);
      ns_ += step;
      wall_ns_ += step;
    }
    if (dice_.percent(1)) wall_ns_ += dice_.between(-30'000, 30'000) * s_ns / 10;
    tick();
    expire();
    do {
      store_->run_due(now());
    } while (store_->next_due_ns() <= now_ms() * 1'000'000);
  }

  // Expires reservations when it notices them, as the store does.
  void expire() {
    std::erase_if(remembered_, [this](const auto& each) { return each.second.due_ms <= now_ms(); });
    for (auto at = held_.begin(); at != held_.end();) {
      Held& held = at->second;
      if (held.due_ms > now_ms()) {
        ++at;
        continue;
      }
      if (held.state != ReservationState::open) {
        at = held_.erase(at);
        continue;
      }
      held.state = ReservationState::expired;
      held.client_id.clear();
      held.due_ms = ceil_now_ms() + held.lifetime_ms;
      for (const std::string& name : held.subjects) {
        SubjectModel& subject = subjects_.at(name);
        --subject.open;
        for (auto& [_, limit] : subject.limits) {
          limit.close(at->first);
          if (subject.quota.refund_expired && limit.knows(at->first)) {
            limit.replace(at->first, 0, model_share(limit.limit(), held.amounts, 0), ns_,
                          steady_ns_);
          }
        }
        if (subject.quota.refund_expired) held.refunded.insert(name);
      }
      ++at;
    }
  }
  int64_t ceil_now_ms() const { return (ns_ + 999'999) / 1'000'000; }

  void step() {
    advance();
    const uint64_t kind = dice_.below(100);
    if (kind < 45) {
      reserve(kind < 8);
    } else if (kind < 65) {
      settle();
    } else if (kind < 75) {
      cancel();
    } else if (kind < 80) {
      extend();
    } else if (kind < 86) {
      record();
    } else if (kind < 92) {
      consume();
    } else if (kind < 93) {
      reset();
    } else if (kind < 95) {
      put(any_subject());
    }
  }

  std::string any_subject() { return std::string("{t}") + static_cast<char>('a' + dice_.below(3)); }

  std::vector<std::string> some_subjects() {
    std::vector<std::string> names;
    const uint64_t first = dice_.below(3);
    const uint64_t count = dice_.percent(60) ? 1 : 1 + dice_.below(3);
    for (uint64_t index = 0; index < count; ++index) {
      names.push_back(std::string("{t}") + static_cast<char>('a' + (first + index) % 3));
    }
    return names;
  }

  Amounts some_amounts() {
    return {.requests = dice_.below(3),
            .input_tokens = dice_.below(40),
            .output_tokens = dice_.below(40),
            .cost = dice_.below(60)};
  }

  QuotaAnswer ask(const QuotaCall& call, const std::vector<std::string>& names) {
    batch_.clear();
    batch_.calls.push_back(call);
    batch_.calls[0].subjects_count = static_cast<uint8_t>(names.size());
    for (const std::string& name : names) batch_.subjects.push_back(name);
    batch_.make_answers();
    if (call.op == QuotaOp::put) batch_.new_quotas.push_back(new_quota_);
    store_->decide(batch_, now());
    return batch_.answers[0];
  }

  struct Expectation {
    bool must_deny = false;
    bool must_admit = true;
    bool never = false;
    bool may_never = false;  // includes limits that leak at no rate
  };

  Expectation expect(const std::vector<std::string>& names, const Amounts& amounts,
                     uint64_t cached = 0) {
    Expectation expected;
    for (const std::string& name : names) {
      SubjectModel& subject = subjects_.at(name);
      for (const Limit& limit : subject.quota.limits) {
        if (limit.ceiling == api::Ceiling::unlimited) continue;
        const bool slot = limit.kind == LimitKind::concurrency;
        const uint64_t share = slot ? 1 : model_share(limit, amounts, cached);
        const Bounds used = slot ? Bounds{subject.open, subject.open}
                                 : subject.limits.at(limit.name).used(ns_, steady_ns_);
        if (limit.ceiling == api::Ceiling::block || share > limit.amount) expected.never = true;
        if (limit.kind == LimitKind::gcra && limit.amount == 0) expected.may_never = true;
        if (used.least + share > limit.amount) expected.must_deny = true;
        if (used.most > limit.amount || share > limit.amount - used.most)
          expected.must_admit = false;
      }
    }
    if (expected.never) {
      expected.may_never = true;
      expected.must_deny = true;
      expected.must_admit = false;
    }
    return expected;
  }

  std::string some_client_id() {
    return dice_.percent(10) ? "id-" + std::to_string(dice_.below(20)) : std::string{};
  }

  void reserve(bool only_check) {
    const std::vector<std::string> names = some_subjects();
    const Amounts amounts = some_amounts();
    const Expectation expected = expect(names, amounts);
    const auto lifetime = static_cast<uint32_t>(dice_.between(10, 10 + 20 * scale_ / 1'000'000));
    const std::string client_id = some_client_id();
    const std::string owner =
        dice_.percent(70) ? "owner " + std::to_string(dice_.below(9)) : std::string{};
    const Held* repeated = nullptr;
    uint64_t repeated_id = 0;
    for (const auto& [id, held] : held_) {
      if (!client_id.empty() && held.client_id == client_id) {
        repeated = &held;
        repeated_id = id;
      }
    }
    const QuotaAnswer answer = ask({.op = only_check ? QuotaOp::check : QuotaOp::reserve,
                                    .given_bits = api::given::output_tokens,
                                    .lifetime_ms = lifetime,
                                    .amounts = amounts,
                                    .client_id = client_id,
                                    .owner = owner},
                                   names);
    if (remembered_.contains(client_id)) {
      ASSERT_EQ(answer.code, QuotaCode::id_in_use);
      return;
    }
    if (repeated != nullptr) {
      const bool is_other =
          repeated->subjects != names || repeated_amounts_.at(client_id) != amounts;
      ASSERT_EQ(answer.code == QuotaCode::id_in_use, is_other);
      if (only_check) {
        ASSERT_EQ(answer.reservation, 0U);
      } else if (!is_other) {
        ASSERT_EQ(answer.reservation, repeated_id);
        ASSERT_EQ(answer.state, repeated->state);
      }
      return;
    }
    const bool admitted = api::admits(answer.code);
    ASSERT_FALSE(admitted && expected.must_deny) << api::code_name(answer.code);
    ASSERT_FALSE(!admitted && expected.must_admit) << api::code_name(answer.code);
    if (!admitted) {
      ASSERT_EQ(expected.never, !api::may_retry(answer.code)) << api::code_name(answer.code);
      ASSERT_TRUE(!expected.never || answer.retry_after_ms == api::retry_never);
      ASSERT_TRUE(expected.may_never || answer.retry_after_ms > 0);
      return;
    }
    if (only_check) return;
    ASSERT_NE(answer.reservation, 0U);
    ASSERT_FALSE(held_.contains(answer.reservation));
    held_[answer.reservation] = {.subjects = names,
                                 .amounts = amounts,
                                 .due_ms = ceil_now_ms() + lifetime,
                                 .lifetime_ms = lifetime,
                                 .refunded = {},
                                 .client_id = client_id,
                                 .owner = owner,
                                 .since_ns = ns_};
    if (!client_id.empty()) repeated_amounts_[client_id] = amounts;
    for (const std::string& name : names) {
      SubjectModel& subject = subjects_.at(name);
      ++subject.open;
      for (auto& [_, limit] : subject.limits) {
        limit.charge(model_share(limit.limit(), amounts, 0), answer.reservation, true, ns_,
                     steady_ns_);
      }
    }
  }

  uint64_t any_reservation() {
    if (held_.empty() || dice_.percent(3)) return dice_.below(UINT64_MAX) & 0x00FF'FFFF'FFFF'FFFF;
    auto at = held_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(dice_.below(held_.size())));
    return at->first;
  }

  // Changes the amounts of a reservation in the model.
  void replace(uint64_t id, Held& held, const Amounts& actual, uint64_t cached) {
    for (const std::string& name : held.subjects) {
      SubjectModel& subject = subjects_.at(name);
      if (held.state == ReservationState::open) --subject.open;
      for (auto& [_, limit] : subject.limits) {
        const uint64_t before = model_share(limit.limit(), held.amounts, 0);
        const uint64_t after = model_share(limit.limit(), actual, cached);
        if (held.refunded.contains(name)) {
          if (after > 0) limit.charge(after, 0, false, ns_, steady_ns_);
        } else if (limit.knows(id)) {
          limit.replace(id, after, before, ns_, steady_ns_);
        } else if (after > before) {
          limit.charge(after - before, 0, false, ns_, steady_ns_);
        }
      }
    }
    held.amounts = actual;
  }

  void settle() {
    const uint64_t id = any_reservation();
    Amounts actual = some_amounts();
    const uint64_t cached = dice_.percent(30) ? dice_.below(actual.input_tokens + 1) : 0;
    const auto reported = static_cast<uint8_t>(dice_.below(16));
    const QuotaAnswer answer =
        ask({.op = QuotaOp::settle,
             .given_bits = reported,
             .amounts = actual,
             .cached_input_tokens = (reported & api::given::input_tokens) != 0 ? cached : 0,
             .reservation = id},
            {});
    const auto at = held_.find(id);
    if (at == held_.end()) {
      ASSERT_EQ(answer.code, QuotaCode::unknown_reservation);
      return;
    }
    Held& held = at->second;
    if (held.state == ReservationState::cancelled) {
      ASSERT_EQ(answer.code, QuotaCode::already_cancelled);
      return;
    }
    ASSERT_EQ(answer.code, QuotaCode::ok);
    if (held.state != ReservationState::settled) {
      ASSERT_EQ(answer.late, held.state == ReservationState::expired);
      if ((reported & api::given::requests) == 0) actual.requests = held.amounts.requests;
      if ((reported & api::given::input_tokens) == 0)
        actual.input_tokens = held.amounts.input_tokens;
      if ((reported & api::given::output_tokens) == 0)
        actual.output_tokens = held.amounts.output_tokens;
      if ((reported & api::given::cost) == 0) actual.cost = held.amounts.cost;
      replace(id, held, actual, (reported & api::given::input_tokens) != 0 ? cached : 0);
      held.state = ReservationState::settled;
    }
    ASSERT_EQ(answer.amounts, held.amounts);
  }

  void cancel() {
    const uint64_t id = any_reservation();
    const bool keep = dice_.percent(30);
    const QuotaAnswer answer = ask({.op = QuotaOp::cancel,
                                    .flags = keep ? api::quota_flag::keep_requests : uint8_t{0},
                                    .reservation = id},
                                   {});
    const auto at = held_.find(id);
    if (at == held_.end()) {
      ASSERT_EQ(answer.code, QuotaCode::unknown_reservation);
      return;
    }
    Held& held = at->second;
    if (held.state == ReservationState::settled) {
      ASSERT_EQ(answer.code, QuotaCode::already_settled);
      return;
    }
    ASSERT_EQ(answer.code, QuotaCode::ok);
    if (held.state == ReservationState::cancelled) return;
    replace(id, held, {.requests = keep ? held.amounts.requests : 0}, 0);
    held.state = ReservationState::cancelled;
  }

  void extend() {
    const uint64_t id = any_reservation();
    const auto lifetime = static_cast<uint32_t>(dice_.between(10, 10 + 20 * scale_ / 1'000'000));
    const QuotaAnswer answer =
        ask({.op = QuotaOp::extend, .lifetime_ms = lifetime, .reservation = id}, {});
    const auto at = held_.find(id);
    if (at == held_.end()) {
      ASSERT_EQ(answer.code, QuotaCode::unknown_reservation);
    } else if (at->second.state == ReservationState::open) {
      ASSERT_EQ(answer.code, QuotaCode::ok);
      at->second.due_ms = ceil_now_ms() + lifetime;
      at->second.lifetime_ms = lifetime;
    } else {
      ASSERT_NE(answer.code, QuotaCode::ok);
    }
  }

  void record() { use(QuotaOp::record); }
  void consume() { use(QuotaOp::consume); }

  // Charges what was used: under an id only once.
  void use(QuotaOp op) {
    const Amounts amounts = some_amounts();
    const Used used{op, some_subjects(), amounts, dice_.below(amounts.input_tokens + 1)};
    const std::string client_id = some_client_id();
    const Expectation expected =
        op == QuotaOp::consume ? expect(used.subjects, amounts, used.cached) : Expectation{};
    const QuotaAnswer answer = ask(
        {.op = op, .amounts = amounts, .cached_input_tokens = used.cached, .client_id = client_id},
        used.subjects);
    ASSERT_EQ(answer.reservation, 0U);
    if (!client_id.empty() && is_known(client_id)) {
      const auto first = remembered_.find(client_id);
      const bool is_repeat = first != remembered_.end() && first->second.used == used;
      ASSERT_EQ(api::admits(answer.code), is_repeat);
      ASSERT_TRUE(is_repeat || answer.code == QuotaCode::id_in_use);
      return;
    }
    const bool admitted = api::admits(answer.code);
    ASSERT_FALSE(admitted && expected.must_deny) << api::code_name(answer.code);
    ASSERT_FALSE(!admitted && expected.must_admit) << api::code_name(answer.code);
    if (!admitted) return;
    if (!client_id.empty()) {
      remembered_[client_id] = {used, ceil_now_ms() + policy::QuotaRules{}.lifetime_ms};
    }
    for (const std::string& name : used.subjects) {
      for (auto& [_, limit] : subjects_.at(name).limits) {
        limit.charge(model_share(limit.limit(), amounts, used.cached), 0, false, ns_, steady_ns_);
      }
    }
  }

  bool is_known(const std::string& client_id) const {
    return remembered_.contains(client_id) ||
           std::any_of(held_.begin(), held_.end(),
                       [&](const auto& held) { return held.second.client_id == client_id; });
  }

  void reset() {
    const bool all = dice_.percent(30);
    const std::string name = any_subject();
    if (all) {
      ask({.op = QuotaOp::reset_all}, {});
    } else {
      ask({.op = QuotaOp::reset}, {name});
    }
    for (auto& [of, subject] : subjects_) {
      if (!all && of != name) continue;
      for (auto& [_, limit] : subject.limits) limit.reset(ns_, all);
    }
  }

  Limit some_limit(size_t index) {
    Limit limit{.name = "l" + std::to_string(index),
                .metric = static_cast<Metric>(dice_.below(all_slide_ ? 5 : 6))};
    limit.amount = dice_.percent(5) ? 0 : 1 + dice_.below(200);
    limit.count_cached = dice_.percent(30);
    limit.period_ms = std::array<int64_t, 5>{10, 77, 1'000, 60'000, 3'600'000}[dice_.below(5)];
    if (all_slide_) return limit;
    if (dice_.percent(5)) limit.ceiling = api::Ceiling::unlimited;
    if (dice_.percent(1)) limit.ceiling = api::Ceiling::block;
    if (limit.metric == Metric::concurrency) {
      limit.kind = LimitKind::concurrency;
      return limit;
    }
    limit.kind = static_cast<LimitKind>(1 + dice_.below(6));
    if (limit.kind == LimitKind::anchored_day || limit.kind == LimitKind::rolling_day) {
      limit.period_ms = 86'400'000;
    }
    if (limit.kind == LimitKind::calendar) {
      limit.period_ms = 0;
      limit.unit = static_cast<api::CalendarUnit>(1 + dice_.below(4));
      limit.time_zone = dice_.percent(50) ? "America/Los_Angeles" : "UTC";
    }
    return limit;
  }

  // Some limits stay but for their amount, others are new.
  void put(const std::string& name) {
    SubjectModel& subject = subjects_[name];
    Quota quota{.limits = {}, .refund_expired = dice_.percent(30), .profile = {}};
    const size_t count = 1 + dice_.below(4);
    for (size_t index = 0; index < count; ++index) {
      const bool stays = index < subject.quota.limits.size() && dice_.percent(50);
      Limit limit = stays ? subject.quota.limits[index] : some_limit(index);
      if (stays && dice_.percent(50)) limit.amount = 1 + dice_.below(200);
      quota.limits.push_back(limit);
    }
    const Quota& of_another = subjects_["{t}a"].quota;
    if (dice_.percent(20) && !of_another.limits.empty()) quota = of_another;
    std::map<std::string, LimitModel> limits;
    for (const Limit& limit : quota.limits) {
      if (limit.kind == LimitKind::concurrency) continue;
      const auto before =
          std::find_if(subject.quota.limits.begin(), subject.quota.limits.end(),
                       [&](const Limit& other) { return other.name == limit.name; });
      Limit same = limit;
      if (before != subject.quota.limits.end()) {
        same.amount = before->amount;
        same.ceiling = before->ceiling;
      }
      if (before != subject.quota.limits.end() && *before == same) {
        LimitModel model = subject.limits.at(limit.name);
        model.set_amount(limit, ns_);
        limits.emplace(limit.name, model);
      } else {
        limits.emplace(limit.name, LimitModel(limit, ns_));
      }
    }
    subject.limits = std::move(limits);
    subject.quota = quota;
    new_quota_ = quota;
    ASSERT_EQ(ask({.op = QuotaOp::put}, {name}).code, QuotaCode::ok);
  }

  void inspect_a_subject() {
    const std::string name = any_subject();
    SubjectModel& subject = subjects_.at(name);
    const QuotaAnswer answer = ask({.op = QuotaOp::usage}, {name});
    ASSERT_EQ(answer.rows_count, 1U);
    const api::SubjectRow& row = batch_.rows[answer.first_row];
    ASSERT_EQ(batch_.name_of(row), name);
    ASSERT_EQ(row.open_reservations, subject.open);
    ASSERT_EQ(batch_.quotas[row.quota], subject.quota);
    ASSERT_EQ(row.limits_count, subject.quota.limits.size());
    for (uint32_t index = 0; index < row.limits_count; ++index) {
      const api::LimitReport& reported = batch_.limits[row.first_limit + index];
      const Limit& limit = subject.quota.limits[index];
      ASSERT_EQ(reported.name_text(), limit.name);
      if (limit.kind == LimitKind::concurrency) {
        ASSERT_EQ(reported.used, subject.open);
        continue;
      }
      const auto where = [&] {
        return std::string(api::kind_name(limit.kind)) + " of " + std::to_string(limit.period_ms) +
               " ms at " + std::to_string(ns_);
      };
      LimitModel& model = subject.limits.at(limit.name);
      const Bounds used = model.used(ns_, steady_ns_);
      ASSERT_GE(reported.used, used.least) << where();
      ASSERT_LE(reported.used, used.most) << where();
      const Bounds open = model.open(ns_, steady_ns_);
      ASSERT_GE(reported.reserved, open.least) << where();
      ASSERT_LE(reported.reserved, open.most) << where();
      ASSERT_LE(reported.reserved, reported.used);
      ASSERT_GE(reported.reset_ms, 0);
    }
  }

  // Every open reservation of one subject, or of all, in pages of any size.
  void check_holders() {
    const std::string name = dice_.percent(50) ? any_subject() : std::string{};
    std::set<uint64_t> reported;
    uint64_t cursor = 0;
    do {
      const QuotaAnswer answer = ask({.op = QuotaOp::holders,
                                      .limit = static_cast<uint32_t>(dice_.below(20)),
                                      .cursor = cursor},
                                     name.empty() ? Names{} : Names{name});
      ASSERT_EQ(answer.rows_count, batch_.holders.size());
      for (const api::HolderRow& row : batch_.holders) {
        check_holder(row, name);
        ASSERT_TRUE(reported.insert(row.reservation).second);
      }
      cursor = answer.next_cursor;
    } while (cursor != 0);
    for (const auto& [id, held] : held_) {
      const bool is_of =
          name.empty() || std::count(held.subjects.begin(), held.subjects.end(), name);
      ASSERT_EQ(reported.contains(id), held.state == ReservationState::open && is_of);
    }
  }

  void check_holder(const api::HolderRow& row, const std::string& name) {
    ASSERT_TRUE(held_.contains(row.reservation));
    const Held& held = held_.at(row.reservation);
    ASSERT_EQ(row.state, ReservationState::open);
    ASSERT_EQ(batch_.text_of(row.owner), held.owner);
    ASSERT_EQ(row.amounts, held.amounts);
    ASSERT_EQ(row.held_ms, (ns_ - held.since_ns) / 1'000'000);
    ASSERT_EQ(row.lifetime_ms, std::min<int64_t>(held.due_ms - now_ms(), held.lifetime_ms));
    Names subjects;
    for (uint8_t at = 0; at < row.subjects_count; ++at) {
      subjects.emplace_back(batch_.text_of(row.subjects[at]));
    }
    ASSERT_EQ(subjects, held.subjects) << name;
  }

  Dice dice_;
  std::unique_ptr<QuotaStore> store_;
  limiter::SteadyWall wall_;
  int64_t ns_ = 0;
  int64_t wall_ns_ = 0;
  int64_t steady_ns_ = 0;
  int64_t scale_ = 0;
  bool all_slide_ = false;  // such quotas are charged in another way
  QuotaBatch batch_;
  Quota new_quota_;
  std::map<std::string, SubjectModel> subjects_;
  std::map<uint64_t, Held> held_;
  std::map<std::string, Amounts> repeated_amounts_;
  std::map<std::string, RememberedUse> remembered_;
};

TEST(QuotaStore, decides_as_one_that_remembers_every_charge) {
  for (const uint64_t seed : property_seeds(500)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    World(seed).run(4'000);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::quota
