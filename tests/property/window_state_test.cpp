// Windows that survive a restart: the shard that is made of their records answers as the one that
// wrote them would have.
// Method: random calls on one shard, its records written in shares and restored into another, which
//         has another secret, and sometimes other rules; then the same calls to both. SEED=n
//         repeats a run.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "shard/key_shard.hpp"
#include "state/part_reader.hpp"
#include "state/window_parts.hpp"

namespace sluice::shard {
namespace {

class WindowsComparison {
 public:
  explicit WindowsComparison(uint64_t seed)
      : dice_(seed), options_(options()), before_(std::make_unique<KeyShard>(options_)) {
    now_ns_ = static_cast<int64_t>(dice_.below(1'000'000'000'000));
  }

  void run() {
    before_->adopt(rules(0), now());
    for (int step = 0; step < 600; ++step) call_one(*before_);
    before_->drain(now());
    before_->keep_grants(0);
    write();
    after_options_ = options();
    after_options_.kept_window_ms = options_.kept_window_ms;
    after_options_.policy = options_.policy;
    pass_time();
    const uint64_t rules_number = dice_.below(2);
    KeyShard after(after_options_);
    after.adopt(rules(rules_number), now());
    restore(after);
    if (rules_number != 0) before_->adopt(rules(rules_number), now());
    after.check_invariants(now());
    for (int step = 0; step < 400 && !kept_.empty(); ++step) compare_one(after);
    after.check_invariants(now());
    before_->check_invariants(now());
  }

  size_t kept_count() const { return kept_.size(); }
  uint64_t compared = 0;

 private:
  Options options() {
    Options options{.keys_max = 1'000,
                    .waiters_max = 20,
                    .key_bytes_max = 64,
                    .kept_window_ms = dice_.between(1, 3'000),
                    .policy = {.window_ms = dice_.between(10, 5'000),
                               .max_requests = static_cast<uint32_t>(dice_.between(1, 30)),
                               .max_requests_in_queue = 3}};
    for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(dice_.below(256));
    return options;
  }
  std::unique_ptr<policy::RuleBook> rules(uint64_t number) const {
    std::vector<policy::Rule> rules{{.pattern = "key-7", .window_ms = 2'000}};
    if (number > 0) {
      rules.push_back({.pattern = "key-8", .window_ms = 3'000});
      rules.push_back({.pattern = "1", .is_regex = true, .max_requests = 12});
    }
    return std::make_unique<policy::RuleBook>(options_.policy, rules);
  }
  base::Now now() const { return {.monotonic_ns = now_ns_, .wall_ns = 0}; }
  void pass_time() { now_ns_ += dice_.between(0, 900) * base::ns_per_ms + dice_.between(0, 999); }

  struct Call {
    std::string key;
    api::Entry entry;
    api::Overrides overrides;
  };
  Call draw_call() {
    Call call{.key = "key-" + std::to_string(dice_.below(60)), .entry = {}, .overrides = {}};
    call.entry.cost = static_cast<uint32_t>(dice_.between(1, 4));
    call.entry.flags = api::flag::wants_details;
    if (dice_.percent(10)) call.entry.op = api::Op::release;
    if (!dice_.percent(15)) return call;
    call.overrides = api::no_overrides;
    if (dice_.percent(60)) call.overrides.max_requests = static_cast<uint32_t>(dice_.between(1, 9));
    if (dice_.percent(60)) call.overrides.window_ms = dice_.between(10, 6'000);
    return call;
  }
  api::Verdict decide(KeyShard& shard, const Call& call, api::Detail& detail) {
    api::Entry entry = call.entry;
    entry.key_data = call.key.data();
    entry.key_bytes = static_cast<uint16_t>(call.key.size());
    if (call.overrides != api::no_overrides) entry.given_overrides = &call.overrides;
    api::Verdict verdict = api::Verdict::none;
    api::WaiterId waiter = api::no_waiter;
    shard.decide(std::span(&entry, 1),
                 {.verdicts = {&verdict, 1}, .details = {&detail, 1}, .waiters = {&waiter, 1}},
                 now(), 0);
    return verdict;
  }
  void call_one(KeyShard& shard) {
    Call call = draw_call();
    if (call.entry.op != api::Op::release && dice_.percent(20)) {
      call.entry.flags |= api::flag::may_wait;
      call.entry.ticket = 5;
    }
    api::Detail detail;
    decide(shard, call, detail);
    if (dice_.percent(10)) pass_time();
    shard.run_due(now());
    shard.keep_grants(0);
  }

  void write() {
    state::WindowParts parts(options_.keys_max, 64'000);
    for (uint64_t cursor = 0; cursor < positions_end;) {
      const auto buckets = static_cast<uint32_t>(dice_.between(1, 40));
      cursor = before_->write_windows(
          {.cursor = cursor, .end = positions_end, .buckets_max = buckets}, parts, now());
    }
    parts.finish({.epoch = 1, .time = {.state_ns = now_ns_}, .calendar_wall_ns = 0, .order = 0});
    for (const state::PartBytes part : parts.parts()) {
      parts_.emplace_back(part.begin(), part.end());
    }
  }
  void restore(KeyShard& after) {
    for (const auto& part : parts_) {
      auto reader = state::PartReader::open(part).value();
      while (const auto record = reader.next()) {
        const auto& window = std::get<state::WindowRecord>(*record);
        EXPECT_NE(after.restore(window, now()), Restoring::has_no_room);
        kept_.emplace_back(window.key);
      }
      EXPECT_FALSE(reader.damage());
    }
    expect_long_ones_only();
  }
  // A record of every key that lives and has a window that lasts so long, and of no other.
  void expect_long_ones_only() {
    std::map<std::string, bool> kept;
    for (const std::string& key : kept_) EXPECT_TRUE(kept.emplace(key, true).second) << key;
    for (int number = 0; number < 60; ++number) {
      const std::string key = "key-" + std::to_string(number);
      const auto state = before_->inspect(key, now());
      if (!state) continue;
      EXPECT_EQ(kept.contains(key), state->window_ms >= options_.kept_window_ms) << key;
    }
  }

  static void expect_same(const api::Detail& expected, const api::Detail& found,
                          const std::string& key) {
    EXPECT_EQ(expected.limit, found.limit) << key;
    EXPECT_EQ(expected.remaining, found.remaining) << key;
    EXPECT_EQ(expected.window_ms, found.window_ms) << key;
    EXPECT_EQ(expected.reset_ms, found.reset_ms) << key;
    EXPECT_EQ(expected.retry_after_ms, found.retry_after_ms) << key;
  }
  void compare_one(KeyShard& after) {
    Call call = draw_call();
    call.key = kept_[dice_.below(kept_.size())];
    api::Detail expected;
    api::Detail found;
    EXPECT_EQ(decide(*before_, call, expected), decide(after, call, found)) << call.key;
    expect_same(expected, found, call.key);
    if (dice_.percent(10)) pass_time();
    for (KeyShard* shard : {before_.get(), &after}) shard->run_due(now());
    ++compared;
  }

  Dice dice_;
  Options options_;
  Options after_options_;
  std::unique_ptr<KeyShard> before_;
  int64_t now_ns_ = 0;
  std::vector<std::vector<std::byte>> parts_;
  std::vector<std::string> kept_;
};

TEST(WindowState, answers_as_before_the_restart) {
  uint64_t kept = 0;
  uint64_t compared = 0;
  for (const uint64_t seed : property_seeds(300)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    WindowsComparison comparison(seed);
    comparison.run();
    kept += comparison.kept_count();
    compared += comparison.compared;
    if (testing::Test::HasFailure()) return;
  }
  if (std::getenv("SEED") != nullptr) return;
  EXPECT_GT(kept, 3'000U);
  EXPECT_GT(compared, 50'000U);
}

}  // namespace
}  // namespace sluice::shard
