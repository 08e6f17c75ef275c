// What is restored from the parts of a cut equals the stores as they were at the cut's instant,
// whatever happened while it was written.
// Method: random calls on a few subjects with every kind of limit, of one shard or several; cuts at
// random moments, handed over in random slices between further calls; then a crash at a random
// moment, and a start from the last commit, with the same or another number of shards, and perhaps
// another book. The stores that went on are compared with others that keep nothing and have never
// crashed: they are asked the same calls, but those that the crash has lost.
// SEED=n repeats a run.
#include "quota/quota_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "policy/quota_book.hpp"
#include "property/seeds.hpp"
#include "quota/quota_class.hpp"
#include "support/quota_state.hpp"
#include "unit/quota/sharded_stores.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

using Names = std::vector<std::string>;

constexpr Options store_options{
    .subjects_max = 100, .reservations_max = 5'000, .waiters_max = 4, .name_seed = 77};

constexpr std::array named{"{a}1", "{a}2", "n0", "n1", "n2", "n3"};  // in each book
constexpr std::array all_names{"{a}1", "{a}2", "n0", "n1", "n2",     "n3",
                               "x0",   "x1",   "x2", "x3", "unknown"};

// One thing that happens to the stores.
struct Operation {
  enum class Kind : uint8_t { call, time, reset_all, adopt, restart };
  Kind kind = Kind::call;
  QuotaCall call;
  Names names;
  api::Quota quota;
  std::string client_id;
  std::string owner;
  size_t reservation = SIZE_MAX;  // call: by the number of the operation that made it
  base::Now now;                  // time, restart
  size_t book = 0;                // adopt, restart
  bool is_seen_at_once = false;   // reset_all: by every subject
};

// Stores with what a test has to know to ask them again.
class Side {
 public:
  Side(uint32_t shards, Options options, std::deque<policy::QuotaBook>& books)
      : books_(books), stores_(shards, options) {}

  ShardedStores& stores() { return stores_; }
  base::Now now() const { return now_; }
  size_t book() const { return book_; }

  // The answer to a call; `at`: its number.
  const QuotaBatch& apply(const Operation& operation, size_t at) {
    task_ = StoreTask();
    // As on a machine: so orders are those of their times, on whatever shard.
    now_.monotonic_ns += base::ns_per_us;
    now_.wall_ns += base::ns_per_us;
    switch (operation.kind) {
      case Operation::Kind::call:
        ask(operation, at);
        break;
      case Operation::Kind::time:
        advance(operation.now);
        break;
      case Operation::Kind::reset_all:
        for_each_shard({.op = QuotaOp::reset_all});
        if (operation.is_seen_at_once) use_all();
        break;
      case Operation::Kind::adopt:
        adopt(operation.book);
        break;
      case Operation::Kind::restart:
        // Nothing is lost but connections, and time.
        now_ = operation.now;
        adopt(operation.book);
        for (uint64_t connection = 1; connection <= connections_count; ++connection) {
          for_each_shard({.op = QuotaOp::end_binding, .binding = connection});
        }
        advance(operation.now);
        break;
    }
    return task_.batch;
  }

  void begin(base::Now now) {
    advance(now);
    adopt(0);
    advance(now);
  }
  void adopt(size_t book) {
    book_ = book;
    for (uint32_t shard = 0; shard < stores_.count(); ++shard) {
      stores_[shard].adopt(books_[book], now_);
    }
    use_all();
  }
  void advance(base::Now now) {
    now_ = now;
    stores_.run_due(now_);
  }

  // What was restored goes on.
  void restart(base::Now now, size_t book) {
    now_ = now;
    adopt(book);
    advance(now);
  }

  QuotaBatch ask(const QuotaCall& call, const Names& names) {
    StoreTask task;
    task.batch.calls = {call};
    task.batch.calls[0].subjects_count = static_cast<uint8_t>(names.size());
    task.batch.subjects.assign(names.begin(), names.end());
    stores_.decide(task, now_);
    return std::move(task.batch);
  }

  uint64_t id_of(size_t operation) const {
    const auto found = ids_.find(operation);
    return found == ids_.end() ? 0 : found->second;
  }
  const std::map<size_t, uint64_t>& ids() const { return ids_; }
  void set_ids(std::map<size_t, uint64_t> ids) { ids_ = std::move(ids); }

  static constexpr uint64_t connections_count = 2;

 private:
  // A subject takes the quota of a new book when it is next used, if only to see whether it is
  // idle, and may never have one of a book that another one soon follows; and what is left of a
  // bucket after a reset of all depends, within its stated error, on when the subject sees that.
  // Here every subject does so at once.
  void use_all() {
    for (const char* const name : all_names) ask({.op = QuotaOp::usage}, {name});
  }

  void ask(const Operation& operation, size_t at) {
    QuotaBatch& batch = task_.batch;
    batch.calls = {operation.call};
    QuotaCall& call = batch.calls[0];
    call.subjects_count = static_cast<uint8_t>(operation.names.size());
    call.client_id = operation.client_id;
    call.owner = operation.owner;
    batch.subjects.assign(operation.names.begin(), operation.names.end());
    if (call.op == QuotaOp::put) batch.new_quotas = {operation.quota};
    if (api::names_reservation(call.op)) call.reservation = id_of(operation.reservation);
    stores_.decide(task_, now_);
    stores_.finish_own(now_);
    const QuotaAnswer& answer = batch.answers[0];
    if (call.op == QuotaOp::reserve && answer.reservation != 0) ids_[at] = answer.reservation;
  }

  void for_each_shard(QuotaCall call) {
    for (uint32_t shard = 0; shard < stores_.count(); ++shard) {
      QuotaBatch batch;
      batch.calls = {call};
      batch.calls[0].shard = static_cast<api::ShardId>(shard);
      batch.make_answers();
      stores_[shard].decide(batch, now_, 0);
    }
    stores_.finish_own(now_);
  }

  std::deque<policy::QuotaBook>& books_;
  ShardedStores stores_;
  base::Now now_;
  size_t book_ = 0;
  std::map<size_t, uint64_t> ids_;
  StoreTask task_;
};

class Restarts {
 public:
  explicit Restarts(uint64_t seed) : dice_(seed), shards_(draw_shards()) {
    scale_ms_ = std::array<int64_t, 4>{5, 400, 20'000, 3'600'000}[dice_.below(4)];
    wall_ns_ = 1'750'000'000 * base::ns_per_s + dice_.between(0, 90'000) * base::ns_per_s;
    first_ = time_at(dice_.between(1, 100'000) * base::ns_per_s / 7);
    for (int book = 0; book < 4; ++book) books_.emplace_back(draw_book());
    live_ = make_live(shards_);
    live_->begin(first_);
    make_cuts();
    make_reference();
  }

  int restarts = 0;

  void run(int operations) {
    for (int at = 0; at < operations && !testing::Test::HasFailure(); ++at) {
      operate();
      go_on_with_cut();
      if (dice_.percent(3)) begin_cut();
      if (dice_.percent(1) && !file_.is_empty()) restart();
    }
    if (testing::Test::HasFailure()) return;
    if (!file_.is_empty()) restart();
    end_everything();
  }

 private:
  uint32_t draw_shards() {
    return static_cast<uint32_t>(1 + (dice_.percent(60) ? dice_.below(3) : dice_.below(8)));
  }

  // ----------------------------------------------------------------------------------- quotas

  api::Limit draw_limit(int number, LimitKind kind) {
    constexpr std::array metrics{Metric::requests, Metric::input_tokens, Metric::output_tokens,
                                 Metric::tokens, Metric::cost};
    constexpr std::array units{api::CalendarUnit::hour, api::CalendarUnit::day,
                               api::CalendarUnit::month};
    api::Limit limit{.name = "l" + std::to_string(number),
                     .metric = metrics[dice_.below(metrics.size())],
                     .kind = kind,
                     .amount = 1 + dice_.below(300),
                     .period_ms = 10 + dice_.between(0, scale_ms_ * 30)};
    if (dice_.percent(8)) limit.ceiling = api::Ceiling::unlimited;
    if (dice_.percent(2)) limit.ceiling = api::Ceiling::block;
    if (limit.ceiling != api::Ceiling::number) limit.amount = 0;
    const bool has_input = limit.metric == Metric::input_tokens || limit.metric == Metric::tokens;
    limit.count_cached = has_input && dice_.percent(20);
    if (kind == LimitKind::anchored_day || kind == LimitKind::rolling_day) {
      limit.period_ms = 86'400'000;
    }
    if (kind == LimitKind::calendar) {
      limit.period_ms = 0;
      limit.unit = units[dice_.below(units.size())];
      limit.time_zone = dice_.percent(50) ? "UTC" : "Europe/Berlin";
    }
    // What is left of a bucket whose amount has changed depends, within its stated error, on when
    // it is used: it never continues with another amount.
    if (kind == LimitKind::gcra) limit.name += "_" + std::to_string(dice_.below(1'000'000));
    if (kind == LimitKind::concurrency) {
      limit.metric = Metric::concurrency;
      limit.amount = 1 + dice_.below(6);
      limit.period_ms = 0;
      limit.count_cached = false;
      limit.ceiling = api::Ceiling::number;
    }
    return limit;
  }
  api::Quota draw_quota() {
    api::Quota quota{.refund_expired = dice_.percent(30)};
    const uint64_t count = 1 + dice_.below(4);
    for (uint64_t number = 0; number < count; ++number) {
      auto kind = static_cast<LimitKind>(dice_.below(api::limit_kinds_count));
      if (kind == LimitKind::gcra && !has_buckets_) kind = LimitKind::fixed;
      quota.limits.push_back(draw_limit(static_cast<int>(number), kind));
    }
    return quota;
  }
  // A subject that only a pattern names is forgotten when it is idle, and then its windows have no
  // beginning any more: but sliding ones need none.
  api::Quota draw_sliding_quota() {
    return {.limits = {draw_limit(0, LimitKind::sliding)}, .refund_expired = dice_.percent(30)};
  }
  policy::QuotaRules draw_book() {
    policy::QuotaRules rules{.unknown_quota = {}, .lifetime_ms = 5'000};
    for (const char* name : named) {
      // Some stay the same but for an amount, so that their usage goes on.
      api::Quota quota = draw_quota();
      if (!books_.empty() && dice_.percent(60)) {
        quota = books_.back().rules().rules[rules.rules.size()].quota;
        for (api::Limit& limit : quota.limits) {
          const bool may_change =
              limit.ceiling == api::Ceiling::number && limit.kind != LimitKind::gcra;
          if (may_change && dice_.percent(30)) ++limit.amount;
        }
      }
      rules.rules.push_back({.subject = name, .quota = quota});
    }
    rules.rules.push_back({.subject = "^x", .is_regex = true, .quota = draw_sliding_quota()});
    return rules;
  }

  std::string any_name() {
    if (dice_.percent(25)) return "x" + std::to_string(dice_.below(4));
    if (dice_.percent(5)) return "unknown";
    return named[dice_.below(named.size())];
  }

  Names some_names() {
    if (dice_.percent(15)) return {"{a}1", "{a}2"};
    Names names{any_name()};
    const uint64_t names_max = dice_.percent(50)   ? 1
                               : dice_.percent(80) ? 3
                                                   : limits::call_subjects_max;
    for (int draws = 0; draws < 8 && names.size() < names_max; ++draws) {
      const std::string name = any_name();
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }

  // -------------------------------------------------------------------------------- operations

  base::Now time_at(int64_t ns) const { return {.monotonic_ns = ns, .wall_ns = wall_ns_ + ns}; }

  api::Amounts some_amounts() {
    return {.requests = dice_.below(3),
            .input_tokens = dice_.below(40),
            .output_tokens = dice_.below(40),
            .cost = dice_.below(60)};
  }

  Operation draw_operation() {
    using Kind = Operation::Kind;
    const uint64_t kind = dice_.below(100);
    if (kind < 20) {
      const int64_t step_ms =
          dice_.percent(3) ? dice_.between(0, 100 * scale_ms_) : dice_.between(0, scale_ms_);
      const int64_t ns = live_->now().monotonic_ns + step_ms * base::ns_per_ms / 3;
      return {.kind = Kind::time, .now = time_at(ns)};
    }
    if (kind < 21) return {.kind = Kind::reset_all, .is_seen_at_once = has_buckets_};
    if (kind < 22) return {.kind = Kind::adopt, .book = dice_.below(books_.size())};
    Operation made;
    made.call.flags = dice_.percent(50) ? api::quota_flag::wants_limits : uint8_t{0};
    if (kind < 27) return draw_change(std::move(made));
    if (kind < 57) return draw_asking(std::move(made));
    return draw_ending(std::move(made));
  }

  Operation draw_change(Operation made) {
    constexpr std::array ops{QuotaOp::put, QuotaOp::remove, QuotaOp::reset};
    made.call.op = ops[dice_.below(ops.size())];
    made.names = {any_name()};
    made.quota = made.names[0][0] == 'x' ? draw_sliding_quota() : draw_quota();
    return made;
  }

  Operation draw_asking(Operation made) {
    const uint64_t kind = dice_.below(10);
    made.call.op = kind < 6 ? QuotaOp::reserve : kind < 8 ? QuotaOp::record : QuotaOp::consume;
    made.call.given_bits = 15;
    made.call.amounts = some_amounts();
    made.call.lifetime_ms = static_cast<uint32_t>(dice_.between(10, 20 + 30 * scale_ms_));
    made.names = some_names();
    if (dice_.percent(25)) made.client_id = "id " + std::to_string(dice_.below(12));
    if (made.call.op == QuotaOp::reserve) {
      if (dice_.percent(30)) made.owner = "owner " + std::to_string(dice_.below(5));
      if (dice_.percent(20)) made.call.binding = 1 + dice_.below(Side::connections_count);
    } else if (made.call.amounts.input_tokens > 0 && dice_.percent(30)) {
      made.call.cached_input_tokens = dice_.below(made.call.amounts.input_tokens);
    }
    return made;
  }

  Operation draw_ending(Operation made) {
    const uint64_t kind = dice_.below(10);
    made.call.op = kind < 4 ? QuotaOp::settle : kind < 7 ? QuotaOp::cancel : QuotaOp::extend;
    made.call.given_bits = static_cast<uint8_t>(dice_.below(16));
    made.call.amounts = some_amounts();
    made.call.lifetime_ms = static_cast<uint32_t>(dice_.between(10, 20 + 30 * scale_ms_));
    if (made.call.op == QuotaOp::cancel && dice_.percent(20)) {
      made.call.flags = api::quota_flag::keep_requests;
    }
    // Most often one that is not long ago.
    const auto& ids = live_->ids();
    const size_t known = dice_.percent(80) ? std::min<size_t>(ids.size(), 12) : ids.size();
    if (known == 0) return made;
    made.reservation = std::next(ids.rbegin(), static_cast<ptrdiff_t>(dice_.below(known)))->first;
    return made;
  }

  void operate() { apply(draw_operation()); }
  void apply(Operation operation) {
    log_.push_back(std::move(operation));
    const size_t at = log_.size() - 1;
    const QuotaBatch& answer = live_->apply(log_[at], at);
    note_quota(log_[at], answer);
    const QuotaBatch& expected = reference_->apply(log_[at], at);
    if (log_[at].kind == Operation::Kind::call) expect_same(expected, answer, at);
  }

  // The server writes down what was put at run time.
  void note_quota(const Operation& operation, const QuotaBatch& answer) {
    if (operation.kind != Operation::Kind::call || answer.answers[0].code != QuotaCode::ok) return;
    const QuotaOp op = operation.call.op;
    if (op == QuotaOp::put) quotas_[operation.names[0]] = quota_text(operation.quota);
    if (op == QuotaOp::remove) quotas_.erase(operation.names[0]);
  }

  // ------------------------------------------------------------------------------------- cuts

  Options live_options() {
    Options options = store_options;
    options.id_seed = ++starts_ * 1'000;
    options.keeps_state = true;
    return options;
  }
  std::unique_ptr<Side> make_live(uint32_t shards) {
    return std::make_unique<Side>(shards, live_options(), books_);
  }
  void make_cuts() {
    cuts_.clear();
    Options options = live_options();
    options.shards = live_->stores().count();
    for (options.shard = 0; options.shard < options.shards; ++options.shard) {
      cuts_.push_back(std::make_unique<StateCut>(live_->stores()[options.shard], options));
    }
    is_cutting_ = false;
  }

  void begin_cut() {
    if (is_cutting_) return;
    is_cutting_ = true;
    ++epoch_;
    cut_at_ = log_.size();
    cut_quotas_ = quotas_;
    const bool begins_lap = dice_.percent(50);
    const bool writes_all = dice_.percent(5);
    for (uint32_t shard = 0; shard < cuts_.size(); ++shard) {
      if (writes_all) live_->stores()[shard].write_all();
      cuts_[shard]->begin(epoch_, begins_lap);
    }
    const bool is_at_once = dice_.percent(20);
    if (is_at_once) go_on_with_cut(UINT32_MAX);
  }

  void go_on_with_cut(uint32_t records = 0) {
    if (!is_cutting_) return;
    is_cutting_ = false;
    for (const auto& cut : cuts_) {
      const auto some = records == 0 ? static_cast<uint32_t>(dice_.below(4)) : records;
      is_cutting_ |= cut->hand_over(some, live_->now());
    }
    if (is_cutting_) return;
    file_.commit(cuts_, cut_quotas_);
    committed_at_ = cut_at_;
  }

  // ---------------------------------------------------------------------------------- restarts

  // Whatever is left is settled, cancelled, extended or asked for again; then all lifetimes end,
  // also those of late settles.
  void end_everything() {
    std::vector<Operation> repeats;
    for (const Operation& operation : log_) {
      const bool has_id = operation.kind == Operation::Kind::call && !operation.client_id.empty();
      if (has_id) repeats.push_back(operation);
    }
    if (repeats.size() > 100) repeats.erase(repeats.begin(), repeats.end() - 100);
    for (const Operation& repeat : repeats) apply(repeat);
    for (const auto& [operation, id] : std::map(live_->ids())) {
      Operation made;
      made.call.flags = api::quota_flag::wants_limits;
      made = draw_ending(std::move(made));
      made.reservation = operation;
      if (dice_.percent(80)) apply(made);
    }
    compare_all();
    for (int lifetimes = 0; lifetimes < 4; ++lifetimes) {
      const int64_t ns = live_->now().monotonic_ns + (30 * scale_ms_ + 5'000) * base::ns_per_ms;
      apply({.kind = Operation::Kind::time, .now = time_at(ns)});
    }
    compare_all();
    for (const char* const name : all_names) {
      const QuotaBatch usage = live_->ask({.op = QuotaOp::usage}, {name});
      for (const api::SubjectRow& row : usage.rows) EXPECT_EQ(row.open_reservations, 0U) << name;
    }
    for (uint32_t shard = 0; shard < live_->stores().count(); ++shard) {
      EXPECT_EQ(live_->stores()[shard].reservations_count(), 0U);
    }
  }

  void restart() {
    const base::Now crash = live_->now();
    log_.resize(committed_at_);
    quotas_ = file_.run_time_quotas();
    make_reference();
    const int64_t down_ns = dice_.percent(30) ? 0 : dice_.between(0, 20 * scale_ms_) * 1'000'000;
    if (dice_.percent(20)) wall_ns_ += dice_.between(0, 4'000) * base::ns_per_s;
    const base::Now now = time_at(crash.monotonic_ns + down_ns);
    const size_t book = dice_.percent(40) ? dice_.below(books_.size()) : reference_->book();
    std::map<size_t, uint64_t> ids = known_ids();
    log_.push_back({.kind = Operation::Kind::restart, .now = now, .book = book});
    reference_->apply(log_.back(), log_.size() - 1);
    start(log_.back(), std::move(ids));
    ++restarts;
  }

  // A side that was asked all that is left of the log; it keeps nothing, and never crashed.
  void make_reference() {
    Options options = store_options;
    options.id_seed = 1;
    reference_ = std::make_unique<Side>(shards_, options, books_);
    reference_->begin(first_);
    for (size_t at = 0; at < log_.size(); ++at) reference_->apply(log_[at], at);
  }

  // What was opened and ended between two cuts is forgotten; everything else is known.
  std::map<size_t, uint64_t> known_ids() {
    std::map<size_t, uint64_t> known;
    for (const auto& [operation, id] : live_->ids()) {
      if (operation >= log_.size()) continue;
      if (file_.has_had(id)) {
        known.emplace(operation, id);
        continue;
      }
      const uint64_t expected = reference_->id_of(operation);
      const QuotaBatch shown = reference_->ask({.op = QuotaOp::show, .reservation = expected}, {});
      const ReservationState state = shown.answers[0].state;
      EXPECT_TRUE(state == ReservationState::none || state == ReservationState::settled ||
                  state == ReservationState::cancelled)
          << "reservation " << operation << " has no record";
    }
    return known;
  }

  void start(const Operation& restart, std::map<size_t, uint64_t> ids) {
    const uint32_t shards = dice_.percent(50) ? live_->stores().count() : draw_shards();
    SCOPED_TRACE("from " + std::to_string(live_->stores().count()) + " shards to " +
                 std::to_string(shards));
    live_ = make_live(shards);
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const Restored restored = file_.restore(live_->stores()[shard], restart.now);
      EXPECT_EQ(restored.damage, "");
      EXPECT_EQ(restored.subjects_left_out, 0U);
      EXPECT_EQ(restored.reservations_left_out, 0U);
      EXPECT_EQ(restored.parts_refunded, 0U);
    }
    live_->set_ids(std::move(ids));
    live_->restart(restart.now, restart.book);
    make_cuts();
    compare_all();
  }

  // ---------------------------------------------------------------------------------- comparing

  void compare_all() {
    live_->stores().check_invariants(live_->now());
    for (const char* const name : all_names) {
      const QuotaCall call{.op = QuotaOp::usage};
      expect_same_usage(reference_->ask(call, {name}), live_->ask(call, {name}), name);
    }
    for (const auto& [operation, id] : live_->ids()) {
      const QuotaBatch expected =
          reference_->ask({.op = QuotaOp::show, .reservation = reference_->id_of(operation)}, {});
      const QuotaBatch shown = live_->ask({.op = QuotaOp::show, .reservation = id}, {});
      expect_same_holder(expected, shown, "reservation " + std::to_string(operation));
    }
  }

  static void expect_same_usage(const QuotaBatch& expected, const QuotaBatch& shown,
                                const std::string& name) {
    SCOPED_TRACE("usage of " + name);
    ASSERT_EQ(expected.rows.size(), shown.rows.size());
    for (size_t row = 0; row < expected.rows.size(); ++row) {
      EXPECT_EQ(expected.rows[row].source, shown.rows[row].source);
      EXPECT_EQ(expected.rows[row].open_reservations, shown.rows[row].open_reservations);
    }
    expect_same_limits(expected.limits, shown.limits);
  }

  static void expect_same_limits(const std::vector<api::LimitReport>& expected,
                                 const std::vector<api::LimitReport>& shown) {
    ASSERT_EQ(expected.size(), shown.size());
    for (size_t at = 0; at < expected.size(); ++at) {
      const api::LimitReport& one = expected[at];
      const api::LimitReport& other = shown[at];
      SCOPED_TRACE(std::string(one.name_text()) + ", " + std::string(api::kind_name(one.kind)));
      EXPECT_EQ(one.name_text(), other.name_text());
      EXPECT_EQ(one.subject, other.subject);
      EXPECT_EQ(one.violated, other.violated);
      EXPECT_EQ(one.amount, other.amount);
      EXPECT_EQ(one.used, other.used);
      EXPECT_EQ(one.reserved, other.reserved);
      EXPECT_EQ(one.remaining, other.remaining);
      EXPECT_EQ(one.reset_ms, other.reset_ms);
    }
  }

  static std::vector<std::string_view> subjects_of(const QuotaBatch& batch,
                                                   const api::HolderRow& row) {
    std::vector<std::string_view> names;
    for (uint8_t place = 0; place < row.subjects_count; ++place) {
      names.push_back(batch.text_of(row.subjects[place]));
    }
    return names;
  }

  static void expect_same_holder(const QuotaBatch& expected, const QuotaBatch& shown,
                                 const std::string& name) {
    SCOPED_TRACE(name);
    expect_same_answer(expected.answers[0], shown.answers[0]);
    ASSERT_EQ(expected.holders.size(), shown.holders.size());
    for (size_t at = 0; at < expected.holders.size(); ++at) {
      const api::HolderRow& one = expected.holders[at];
      const api::HolderRow& other = shown.holders[at];
      EXPECT_EQ(one.amounts, other.amounts);
      EXPECT_EQ(one.admission, other.admission);
      EXPECT_EQ(one.state, other.state);
      EXPECT_EQ(one.late, other.late);
      EXPECT_EQ(one.connection_bound, other.connection_bound);
      EXPECT_EQ(one.lifetime_ms, other.lifetime_ms);
      EXPECT_EQ(one.held_ms, other.held_ms);
      EXPECT_EQ(expected.text_of(one.owner), shown.text_of(other.owner));
      EXPECT_EQ(subjects_of(expected, one), subjects_of(shown, other));
    }
  }

  static void expect_same_answer(const QuotaAnswer& expected, const QuotaAnswer& answer) {
    EXPECT_EQ(api::code_name(expected.code), api::code_name(answer.code));
    EXPECT_EQ(expected.state, answer.state);
    EXPECT_EQ(expected.late, answer.late);
    EXPECT_EQ(expected.amounts, answer.amounts);
    EXPECT_EQ(expected.lifetime_ms, answer.lifetime_ms);
    EXPECT_EQ(expected.retry_after_ms, answer.retry_after_ms);
    EXPECT_EQ(expected.reservation == 0, answer.reservation == 0);
  }

  void expect_same(const QuotaBatch& expected, const QuotaBatch& answer, size_t at) {
    const Operation& operation = log_[at];
    std::string trace = "operation " + std::to_string(at) + ", op " +
                        std::to_string(static_cast<int>(operation.call.op)) + ", of " +
                        std::to_string(operation.reservation);
    for (const std::string& name : operation.names) trace.append(" ").append(name);
    SCOPED_TRACE(trace);
    expect_same_answer(expected.answers[0], answer.answers[0]);
    expect_same_limits(expected.limits, answer.limits);
  }

  Dice dice_;
  uint32_t shards_;
  const bool has_buckets_ = dice_.percent(50);
  int64_t scale_ms_ = 0;
  base::Now first_;
  int64_t wall_ns_ = 0;  // the wall's time when the monotonic one began
  std::deque<policy::QuotaBook> books_;
  std::vector<Operation> log_;
  std::unique_ptr<Side> live_;
  std::unique_ptr<Side> reference_;
  RunTimeQuotas quotas_;

  MemoryState file_;
  std::vector<std::unique_ptr<StateCut>> cuts_;
  bool is_cutting_ = false;
  uint64_t epoch_ = 0;
  uint64_t starts_ = 0;
  size_t cut_at_ = 0;
  RunTimeQuotas cut_quotas_;
  size_t committed_at_ = 0;
};

TEST(QuotaState, is_the_same_after_a_restart) {
  int restarts = 0;
  for (const uint64_t seed : property_seeds(60)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Restarts run(seed);
    run.run(1'500);
    restarts += run.restarts;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(restarts, 0);
}

// ----------------------------------------------------------------------- in the middle of calls

// Calls over several shards are under way when the shards cut, one after another; what one passes
// to another carries the epoch of its cut, and the other one cuts before it reads it.
class Interrupted {
 public:
  explicit Interrupted(uint64_t seed)
      : dice_(seed), shards_(static_cast<uint32_t>(1 + dice_.below(5))), options_(store_options) {
    options_.keeps_state = true;
    options_.shards = shards_;
    options_.id_seed = 1;
    stores_ = std::make_unique<ShardedStores>(shards_, options_);
    for (options_.shard = 0; options_.shard < shards_; ++options_.shard) {
      cuts_.push_back(std::make_unique<StateCut>((*stores_)[options_.shard], options_));
    }
    epochs_.resize(shards_);
    book_ = std::make_unique<policy::QuotaBook>(draw_rules());
    for (uint32_t shard = 0; shard < shards_; ++shard) (*stores_)[shard].adopt(*book_, now());
    stores_->run_due(now());
  }

  void run(int steps) {
    for (int at = 0; at < steps && !testing::Test::HasFailure(); ++at) step();
    if (file_.is_empty()) return;
    ++interrupted;
    restart();
  }

  int interrupted = 0;
  uint64_t refunded_count = 0;
  uint64_t half_charged = 0;  // subjects that lacked something of a record or consume

 private:
  static constexpr std::array names{"a", "b", "c", "d", "e", "f"};
  static constexpr size_t cost_limit = 2;  // of these calls alone: others cost nothing

  struct UnderWay {
    StoreTask task;
    uint64_t epoch = 0;  // of the shard that it comes from
  };

  base::Now now() const { return {.monotonic_ns = ns_, .wall_ns = ns_}; }

  // Windows that never end here: what is reserved is known exactly.
  policy::QuotaRules draw_rules() {
    policy::QuotaRules rules{.unknown_quota = {}};
    for (const char* const name : names) {
      api::Quota quota{.limits = {{.name = "tokens",
                                   .metric = Metric::tokens,
                                   .kind = LimitKind::fixed,
                                   .amount = 100'000,
                                   .period_ms = 1'000'000'000},
                                  {.name = "slots",
                                   .metric = Metric::concurrency,
                                   .kind = LimitKind::concurrency,
                                   .amount = 10'000},
                                  {.name = "cost",
                                   .metric = Metric::cost,
                                   .kind = LimitKind::fixed,
                                   .amount = 1'000'000'000,
                                   .period_ms = 1'000'000'000}},
                       .refund_expired = dice_.percent(50)};
      rules.rules.push_back({.subject = name, .quota = std::move(quota)});
    }
    return rules;
  }

  void step() {
    ns_ += base::ns_per_us;
    if (dice_.percent(1)) ns_ += dice_.between(0, 20) * base::ns_per_ms;
    if (dice_.percent(30)) begin_call();
    if (dice_.percent(10)) begin_charge();
    if (dice_.percent(3)) begin_epoch();
    const auto shard = static_cast<uint32_t>(dice_.below(shards_));
    if (dice_.percent(10)) cut(shard, epoch_);
    if (dice_.percent(20)) (*stores_)[shard].run_due(now());
    if (dice_.percent(40)) bring_calls(shard);
    if (!under_way_.empty()) step_call(dice_.below(under_way_.size()));
    hand_over();
  }

  void begin_call() {
    UnderWay& started = under_way_.emplace_back();
    QuotaBatch& batch = started.task.batch;
    QuotaCall call{.given_bits = 15,
                   .lifetime_ms = static_cast<uint32_t>(dice_.between(10, 60)),
                   .amounts = {.requests = 1, .input_tokens = 1 + dice_.below(50)}};
    if (known_.empty() || dice_.percent(50)) {
      call.op = QuotaOp::reserve;
      batch.subjects = draw_names();
      call.subjects_count = static_cast<uint8_t>(batch.subjects.size());
      if (dice_.percent(20)) call.client_id = client_ids[dice_.below(client_ids.size())];
    } else {
      call.op = dice_.percent(50) ? QuotaOp::settle : QuotaOp::cancel;
      call.reservation = known_[dice_.below(known_.size())];
    }
    batch.calls = {call};
    stores_->start(started.task);
  }

  // It has an id of its own, under which it is asked for again after the restart.
  struct Charge {
    QuotaCall call;
    std::string id;
    std::vector<std::string_view> subjects;

    void put_into(QuotaBatch& batch) const {
      batch.calls = {call};
      batch.calls[0].client_id = id;
      batch.subjects = subjects;
    }
  };
  void begin_charge() {
    Charge& made = charges_.emplace_back();
    made.call = {.op = dice_.percent(50) ? QuotaOp::record : QuotaOp::consume,
                 .flags = dice_.percent(30) ? api::quota_flag::may_wait : uint8_t{0},
                 .given_bits = 15,
                 .lifetime_ms = 3'600'000,
                 .amounts = {.requests = 1, .cost = 1 + dice_.below(1'000)}};
    made.id = std::to_string(charges_.size());
    made.subjects = draw_names();
    made.call.subjects_count = static_cast<uint8_t>(made.subjects.size());
    UnderWay& started = under_way_.emplace_back();
    made.put_into(started.task.batch);
    stores_->start(started.task);
  }

  std::vector<std::string_view> draw_names() {
    std::vector<std::string_view> drawn;
    for (uint64_t more = 1 + dice_.below(8); more > 0; --more) {
      const std::string_view name = names[dice_.below(names.size())];
      if (std::ranges::find(drawn, name) == drawn.end()) drawn.push_back(name);
    }
    return drawn;
  }

  void step_call(size_t place) {
    UnderWay& one = under_way_[place];
    const uint32_t shard = one.task.stop;
    cut(shard, one.epoch);
    stores_->step(one.task, now());
    one.epoch = epochs_[shard];
    if (!one.task.is_decided) return;
    const QuotaAnswer& answer = one.task.batch.answers[0];
    if (answer.reservation != 0) known_.push_back(answer.reservation);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(place));
  }

  // What the shard has for others.
  void bring_calls(uint32_t shard) {
    for (const QuotaCall& call : (*stores_)[shard].outgoing_calls()) {
      cut(call.shard, epochs_[shard]);
    }
    stores_->bring_calls((*stores_)[shard], now());
  }

  // All parts of the last epoch have been committed.
  void begin_epoch() {
    if (committed_ == epoch_) ++epoch_;
  }
  void cut(uint32_t shard, uint64_t epoch) {
    if (epochs_[shard] >= epoch) return;
    ASSERT_EQ(epochs_[shard] + 1, epoch);
    epochs_[shard] = epoch;
    cuts_[shard]->begin(epoch, dice_.percent(30));
  }
  void hand_over() {
    bool is_complete = committed_ < epoch_;
    for (uint32_t shard = 0; shard < shards_; ++shard) {
      if (cuts_[shard]->is_under_way()) {
        cuts_[shard]->hand_over(static_cast<uint32_t>(dice_.below(3)), now());
      }
      is_complete &= epochs_[shard] == epoch_ && !cuts_[shard]->is_under_way();
    }
    if (!is_complete) return;
    file_.commit(cuts_, {});
    committed_ = epoch_;
  }

  void restart() {
    const uint32_t shards = dice_.percent(50) ? shards_ : static_cast<uint32_t>(1 + dice_.below(8));
    SCOPED_TRACE("from " + std::to_string(shards_) + " shards to " + std::to_string(shards));
    Options options = store_options;
    options.id_seed = 2;
    options.keeps_state = true;
    ShardedStores restored(shards, options);
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const Restored report = file_.restore(restored[shard], now());
      ASSERT_EQ(report.damage, "");
      ASSERT_EQ(report.reservations_left_out, 0U);
      refunded_count += report.parts_refunded;
      restored[shard].adopt(*book_, now());
    }
    restored.run_due(now());
    restored.check_invariants(now());
    check_usage(restored);
    end_all(restored);
    if (shards == shards_) repeat_charges(restored);
  }

  // A call that is there in part is completed by its repeat; one that is there is not charged
  // again.
  void repeat_charges(ShardedStores& stores) {
    std::map<std::string_view, uint64_t> expected;
    std::map<std::string_view, uint64_t> before;
    for (const char* const name : names) {
      before[name] = usage(stores, name).limits[cost_limit].used;
    }
    for (const Charge& charge : charges_) {
      std::set<bool> changed;
      StoreTask task;
      charge.put_into(task.batch);
      stores.decide(task, now());
      EXPECT_EQ(api::code_name(task.batch.answers[0].code), "ok") << "charge " << charge.id;
      for (const std::string_view name : charge.subjects) {
        expected[name] += charge.call.amounts.cost;
        const uint64_t used = usage(stores, std::string(name).c_str()).limits[cost_limit].used;
        changed.insert(used != std::exchange(before[name], used));
      }
      half_charged += changed.size() - 1;
    }
    for (const char* const name : names) {
      EXPECT_EQ(usage(stores, name).limits[cost_limit].used, expected[name]) << name;
    }
    stores.check_invariants(now());
  }

  struct Sums {
    uint64_t open = 0;
    uint64_t tokens = 0;
  };

  // The open reservations of all shards, with the names of their subjects.
  std::vector<QuotaBatch> holders(ShardedStores& stores) {
    std::vector<QuotaBatch> pages;
    for (uint32_t shard = 0; shard < stores.count(); ++shard) {
      StoreTask task;
      task.batch.calls = {
          {.op = QuotaOp::holders, .shard = static_cast<api::ShardId>(shard), .limit = 1'000}};
      stores.decide(task, now());
      EXPECT_EQ(task.batch.answers[0].next_cursor, 0U);
      pages.push_back(std::move(task.batch));
    }
    return pages;
  }

  // Every reservation is whole: what its subjects have reserved is what it has.
  void check_usage(ShardedStores& stores) {
    std::map<std::string, Sums> sums;
    for (const QuotaBatch& page : holders(stores)) {
      for (const api::HolderRow& row : page.holders) {
        EXPECT_TRUE(file_.has_had(row.reservation));
        for (uint8_t place = 0; place < row.subjects_count; ++place) {
          Sums& sum = sums[std::string(page.text_of(row.subjects[place]))];
          ++sum.open;
          sum.tokens += row.amounts.input_tokens;
        }
      }
    }
    for (const char* const name : names) {
      SCOPED_TRACE(name);
      const QuotaBatch batch = usage(stores, name);
      EXPECT_EQ(batch.rows[0].open_reservations, sums[name].open);
      EXPECT_EQ(batch.limits[0].reserved, sums[name].tokens);
    }
  }

  void end_all(ShardedStores& stores) {
    std::map<std::string, uint64_t> used;
    for (const char* const name : names) {
      const api::LimitReport limit = usage(stores, name).limits[0];
      used[name] = limit.used - limit.reserved;
    }
    for (const QuotaBatch& page : holders(stores)) {
      for (const api::HolderRow& row : page.holders) {
        StoreTask task;
        task.batch.calls = {{.op = QuotaOp::cancel, .reservation = row.reservation}};
        stores.decide(task, now());
        EXPECT_EQ(task.batch.answers[0].code, QuotaCode::ok);
      }
    }
    for (const char* const name : names) {
      SCOPED_TRACE(name);
      const QuotaBatch batch = usage(stores, name);
      EXPECT_EQ(batch.rows[0].open_reservations, 0U);
      EXPECT_EQ(batch.limits[0].reserved, 0U);
      EXPECT_EQ(batch.limits[0].used, used[name]);
    }
    stores.check_invariants(now());
  }

  QuotaBatch usage(ShardedStores& stores, const char* name) {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::usage, .subjects_count = 1}};
    task.batch.subjects = {name};
    stores.decide(task, now());
    return std::move(task.batch);
  }

  static constexpr std::array<std::string_view, 3> client_ids{"x", "y", "z"};

  Dice dice_;
  const uint32_t shards_;
  Options options_;
  int64_t ns_ = 1'000 * base::ns_per_s;
  std::unique_ptr<policy::QuotaBook> book_;
  std::unique_ptr<ShardedStores> stores_;
  std::vector<std::unique_ptr<StateCut>> cuts_;
  std::vector<uint64_t> epochs_;  // of each shard's last cut
  uint64_t epoch_ = 0;
  uint64_t committed_ = 0;
  MemoryState file_;
  std::deque<UnderWay> under_way_;
  std::vector<uint64_t> known_;
  std::deque<Charge> charges_;
};

TEST(QuotaState, has_each_call_of_several_shards_whole_or_not_at_all) {
  int interrupted = 0;
  uint64_t refunded = 0;
  uint64_t half_charged = 0;
  for (const uint64_t seed : property_seeds(200)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Interrupted run(seed);
    run.run(400);
    interrupted += run.interrupted;
    refunded += run.refunded_count;
    half_charged += run.half_charged;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(interrupted, 0);
  if (interrupted > 100) {
    EXPECT_GT(refunded, 0U);
    EXPECT_GT(half_charged, 0U);
  }
}

}  // namespace
}  // namespace sluice::quota
