// A shard answers as the slow, obvious model does: every verdict, detail, grant and view, with
// overrides, costs, waits, withdrawals, expiry, time jumps, full tables and new rules.
// Method: random operations on few hot and many cold keys; SEED=n repeats a run.
#include "shard/key_shard.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "property/shard_model.hpp"

namespace sluice::shard {

// For the messages of failed comparisons.
inline std::string text_of(const api::Detail& detail) {
  return std::to_string(detail.limit) + " limit, " + std::to_string(detail.remaining) +
         " remaining, " + std::to_string(detail.window_ms) + " ms window, " +
         std::to_string(detail.reset_ms) + " reset, " + std::to_string(detail.retry_after_ms) +
         " retry, " + std::to_string(detail.position) + " position";
}

namespace {

using api::Verdict;

struct Shape {
  uint32_t keys_max;
  uint32_t waiters_max;
  uint64_t names_count;
  int operations_count;
  uint64_t rules_every = 400;
  uint64_t rules_max = 6;
};

class ShardComparison {
 public:
  ShardComparison(uint64_t seed, const Shape& shape)
      : dice_(seed), shape_(shape), options_(options(seed)), shard_(options_), model_(options_) {
    now_ns_ = static_cast<int64_t>(dice_.below(1'000'000'000'000));
  }

  void run() {
    for (int step = 0; step < shape_.operations_count && !testing::Test::HasFailure(); ++step) {
      operate();
      compare_grants();
      if (step % 256 == 0) {
        shard_.check_invariants(now());
        compare_page();
      }
    }
    shard_.check_invariants(now());
  }

  std::map<Verdict, uint64_t> seen;
  uint64_t looks = 0;
  uint64_t adoptions = 0;
  uint64_t by_handle = 0;
  uint64_t evictions() const { return shard_.statistics().keys_evicted; }

 private:
  Options options(uint64_t seed) {
    Options options{.keys_max = shape_.keys_max,
                    .handles_max = 24,
                    .waiters_max = shape_.waiters_max,
                    .key_bytes_max = 255,
                    .requests_can_set_rate = seed % 5 != 0,
                    .requests_can_mod_queue = seed % 7 != 0,
                    .requests_can_set_window = seed % 11 != 0,
                    .matches_min = matches_unbounded,  // the model matches at once
                    .policy = {.window_ms = dice_.between(10, 1'500),
                               .max_requests = static_cast<uint32_t>(dice_.between(1, 30)),
                               .max_requests_in_queue = static_cast<uint32_t>(dice_.below(12))}};
    for (std::byte& byte : options.hash_secret) byte = static_cast<std::byte>(dice_.below(256));
    return options;
  }

  void operate() {
    model_.now_ns = now_ns_;
    const uint64_t choice = dice_.below(100);
    if (choice < 42) {
      decide();
    } else if (choice < 56) {
      decide_by_handle();
    } else if (choice < 60) {
      intern_or_forget();
    } else if (choice < 68) {
      leave();
    } else if (choice < 76) {
      run_due();
    } else if (choice < 92) {
      pass_time();
    } else {
      inspect(name());
    }
    model_.now_ns = now_ns_;
    if (dice_.below(2'000) == 0) {
      shard_.drain(now());
      model_.drain();
    }
    if (dice_.below(shape_.rules_every) == 0) adopt_rules();
  }

  // Compares first: keys that were not used since the last rules would skip those.
  void adopt_rules() {
    compare_page();
    ++adoptions;
    std::vector<policy::Rule> rules(dice_.below(shape_.rules_max + 1));
    for (policy::Rule& rule : rules) {
      rule.is_regex = dice_.percent(60);
      rule.pattern = rule.is_regex ? std::to_string(dice_.below(10)) : name();
      if (dice_.percent(70)) rule.max_requests = 1 + static_cast<uint32_t>(dice_.below(40));
      if (dice_.percent(40)) rule.max_requests_in_queue = static_cast<uint32_t>(dice_.below(12));
      if (dice_.percent(40)) rule.window_ms = dice_.between(10, 1'500);
    }
    const auto book = std::make_shared<policy::RuleBook>(options_.policy, rules);
    model_.adopt([book](const std::string& key) { return book->policy_of(key); });
    shard_.adopt(std::make_unique<policy::RuleBook>(options_.policy, std::move(rules)), now());
    run_due();
  }

  std::string name() {
    if (dice_.percent(1)) return dice_.percent(50) ? "" : std::string(256, 'k');
    const uint64_t index = dice_.percent(50) ? dice_.below(8) : dice_.below(shape_.names_count);
    return std::string(index % 60, 'k') + std::to_string(index);
  }

  api::Entry entry(const std::string& key) {
    api::Entry entry{.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
    const uint32_t limit = options_.policy.max_requests;
    entry.cost = dice_.percent(60) ? 1 : 1 + static_cast<uint32_t>(dice_.below(limit + limit / 8));
    if (dice_.percent(12)) {
      entry.op = api::Op::release;
      if (dice_.percent(10)) entry.cost = limits::permits_max;  // a reset of the key
      return entry;
    }
    if (dice_.percent(8)) {
      entry.op = api::Op::look;
      entry.cost = 0;
      entry.flags = dice_.percent(70) ? api::flag::wants_details : 0;
      return entry;
    }
    entry.flags = static_cast<uint8_t>((dice_.percent(50) ? api::flag::may_wait : 0) |
                                       (dice_.percent(2) ? api::flag::waiters_full : 0) |
                                       (dice_.percent(2) ? api::flag::connection_waiters_full : 0) |
                                       (dice_.percent(70) ? api::flag::wants_details : 0));
    entry.ticket = next_ticket_++;
    if (dice_.percent(30)) {
      entry.wait_ms_max =
          1 +
          static_cast<uint32_t>(dice_.below(3 * static_cast<uint64_t>(options_.policy.window_ms)));
    }
    return entry;
  }

  api::Overrides overrides() {
    const limiter::Policy& rules = options_.policy;
    api::Overrides drawn;
    if (dice_.percent(6)) {
      drawn.max_requests =
          dice_.percent(40) ? rules.max_requests : 1 + static_cast<uint32_t>(dice_.below(40));
    }
    if (dice_.percent(6)) {
      drawn.max_requests_in_queue =
          dice_.percent(40) ? rules.max_requests_in_queue : static_cast<uint32_t>(dice_.below(12));
    }
    if (dice_.percent(6)) {
      drawn.window_ms = dice_.percent(40) ? rules.window_ms : dice_.between(10, 3'000);
    }
    return drawn;
  }

  // Near the maximum entries go one by one, to see which key was evicted for which.
  bool roomy() const { return model_.keys().size() + 48 <= shape_.keys_max; }

  void decide() {
    model_.fire();
    model_.forget_expired();
    const bool was_roomy = roomy();
    const uint64_t count = was_roomy ? 1 + dice_.below(48) : 1;
    std::vector<std::string> names(count);
    std::vector<api::Overrides> given(count);
    std::vector<api::Entry> entries;
    for (uint64_t index = 0; index < count; ++index) {
      names[index] = name();
      entries.push_back(entry(names[index]));
      if (entries[index].op != api::Op::acquire) continue;
      given[index] = overrides();
      // One that keeps everything is as good as none.
      const bool has_some = given[index] != api::no_overrides || dice_.percent(3);
      if (has_some) entries[index].given_overrides = &given[index];
    }
    std::vector<Verdict> verdicts(count);
    std::vector<api::Detail> details(count);
    std::vector<api::WaiterId> waiters(count, api::no_waiter);
    const uint64_t evicted_before = evictions();
    shard_.decide(entries, {.verdicts = verdicts, .details = details, .waiters = waiters}, now());
    if (evictions() != evicted_before) follow_eviction(names[0], was_roomy);
    for (uint64_t index = 0; index < count && !testing::Test::HasFailure(); ++index) {
      compare_verdict(names[index], entries[index], verdicts[index], details[index]);
      if (verdicts[index] == Verdict::queued) {
        waiting_.push_back({waiters[index], entries[index].ticket});
      }
    }
  }

  // A handle's number belongs to its key as long as anything holds it, and is the same for all
  // holders.
  void intern_or_forget() {
    if (!held_.empty() && dice_.percent(45)) {
      const size_t index = dice_.below(held_.size());
      shard_.drop_handle_reference(held_[index].first);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    const std::string key = std::to_string(dice_.below(40)) + "k";
    const std::string name = dice_.percent(50) ? key : this->name();
    if (name.empty() || name.size() > options_.key_bytes_max) return;
    std::set<api::Handle> numbers;
    api::Handle known = api::no_handle;
    for (const auto& [number, of] : held_) {
      numbers.insert(number);
      if (of == name) known = number;
    }
    ASSERT_EQ(shard_.handles_count(), numbers.size());
    const api::Handle handle = shard_.intern(name);
    if (known != api::no_handle) {
      ASSERT_EQ(handle, known);
    } else {
      ASSERT_EQ(handle == api::no_handle, numbers.size() == options_.handles_max);
      ASSERT_FALSE(numbers.contains(handle));
    }
    if (handle == api::no_handle) return;
    ASSERT_EQ(shard_.key_of(handle), name);
    held_.emplace_back(handle, name);
  }

  void decide_by_handle() {
    if (held_.empty()) return;
    model_.fire();
    model_.forget_expired();
    const bool was_roomy = roomy();
    const uint64_t count = was_roomy ? 1 + dice_.below(48) : 1;
    std::vector<std::string> names;
    std::vector<api::Handle> handles;
    for (uint64_t index = 0; index < count; ++index) {
      const auto& [handle, name] = held_[dice_.below(held_.size())];
      handles.push_back(handle);
      names.push_back(name);
    }
    std::vector<Verdict> verdicts(count);
    const uint64_t evicted_before = evictions();
    shard_.decide(handles, verdicts, now());
    if (evictions() != evicted_before) follow_eviction(names[0], was_roomy);
    by_handle += count;
    for (uint64_t index = 0; index < count && !testing::Test::HasFailure(); ++index) {
      compare_verdict(names[index], api::Entry{}, verdicts[index], {});
    }
  }

  void compare_verdict(const std::string& key, const api::Entry& entry, Verdict verdict,
                       const api::Detail& detail) {
    if (entry.op == api::Op::release) {
      ASSERT_EQ(verdict, Verdict::approved);
      model_.release(key, entry.cost);
      return;
    }
    if (entry.op == api::Op::look) return compare_look(key, entry, verdict, detail);
    bool room = model_.keys().size() < shape_.keys_max;
    for (const auto& [name, other] : model_.keys()) room = room || model_.evictable(other);
    api::Detail expected;
    const Verdict right = model_.acquire(key, entry, !room, expected);
    ASSERT_EQ(api::verdict_name(verdict), api::verdict_name(right)) << key << " at " << now_ns_;
    ++seen[verdict];
    if ((entry.flags & api::flag::wants_details) != 0) {
      ASSERT_EQ(text_of(detail), text_of(expected)) << api::verdict_name(verdict);
    }
  }

  void compare_look(const std::string& key, const api::Entry& entry, Verdict verdict,
                    const api::Detail& detail) {
    const size_t keys_before = model_.keys().size();
    api::Detail expected;
    ASSERT_EQ(api::verdict_name(verdict), api::verdict_name(model_.look(key, expected))) << key;
    ASSERT_EQ(model_.keys().size(), keys_before);
    ++looks;
    if ((entry.flags & api::flag::wants_details) != 0) {
      ASSERT_EQ(text_of(detail), text_of(expected)) << key << " at " << now_ns_;
    }
  }

  // Exactly one key was evicted, it was evictable, and no expired one could go instead.
  void follow_eviction(const std::string& newcomer, bool roomy) {
    ASSERT_FALSE(roomy);
    ASSERT_EQ(model_.keys().size(), shape_.keys_max);
    std::vector<std::string> gone;
    for (const auto& [name, key] : model_.keys()) {
      if (!shard_.inspect(name, now())) gone.push_back(name);
    }
    ASSERT_EQ(gone.size(), 1U);
    ASSERT_NE(gone[0], newcomer);
    ASSERT_TRUE(model_.evictable(model_.keys().at(gone[0])));
    model_.forget(gone[0]);
  }

  void leave() {
    if (waiting_.empty()) return;
    // Mostly a recent waiter, which may still wait.
    const size_t recent = std::min<size_t>(waiting_.size(), dice_.percent(90) ? 6 : 1'000);
    const size_t index = waiting_.size() - 1 - dice_.below(recent);
    const auto [waiter, ticket] = waiting_[index];
    waiting_[index] = waiting_.back();
    waiting_.pop_back();
    const bool reported = dice_.percent(50);
    const bool left =
        reported ? shard_.withdraw(waiter, ticket, now()) : shard_.abandon(waiter, ticket, now());
    ASSERT_EQ(left, model_.leave(ticket, reported));
  }

  void run_due() {
    do {
      shard_.run_due(now());
    } while (shard_.next_due_ns() <= now_ns_);
    model_.fire();
    model_.forget_expired();
  }

  void pass_time() {
    const int64_t window_ns = options_.policy.window_ms * 1'000'000;
    const uint64_t choice = dice_.below(100);
    if (choice < 60) {
      now_ns_ += static_cast<int64_t>(dice_.below(static_cast<uint64_t>(window_ns / 4)));
    } else if (choice < 96 && !model_.keys().empty()) {
      // To the edge of some key's window.
      auto key = model_.keys().begin();
      std::advance(key, dice_.below(std::min<size_t>(model_.keys().size(), 16)));
      const int64_t edge_ns = model_.end_ms(key->second) * 1'000'000 + dice_.between(-1, 1);
      now_ns_ = std::max(now_ns_, edge_ns);
    } else {
      now_ns_ += static_cast<int64_t>(dice_.below(static_cast<uint64_t>(window_ns) * 6));
    }
    ASSERT_LE(shard_.keys_count(), shape_.keys_max);
  }

  void inspect(const std::string& key) {
    const auto state = shard_.inspect(key, now());
    ASSERT_EQ(state.has_value(), model_.live(key)) << key;
    if (state) compare_state(*state);
  }

  void compare_state(const api::KeyState& state) {
    const api::KeyState right = model_.state(std::string(state.key));
    ASSERT_EQ(state.window_ms, right.window_ms);
    ASSERT_EQ(state.reset_ms, right.reset_ms);
    ASSERT_EQ(state.max_requests, right.max_requests);
    ASSERT_EQ(state.max_requests_in_queue, right.max_requests_in_queue);
    ASSERT_EQ(state.approved, right.approved);
    ASSERT_EQ(state.denied, right.denied);
    ASSERT_EQ(state.waiting, right.waiting);
  }

  void compare_page() {
    model_.now_ns = now_ns_;
    std::set<std::string> reported;
    uint64_t cursor = 0;
    do {
      const Page page = shard_.page(cursor, 1 + static_cast<uint32_t>(dice_.below(1'024)), now());
      ASSERT_LE(page.keys.size(), 1'024U);
      for (const api::KeyState& state : page.keys) {
        ASSERT_TRUE(reported.emplace(state.key).second) << "reported twice";
        ASSERT_TRUE(model_.live(std::string(state.key)));
        compare_state(state);
      }
      cursor = page.next_cursor;
    } while (cursor != 0);
    size_t live = 0;
    for (const auto& [name, key] : model_.keys()) live += model_.live(name);
    ASSERT_EQ(reported.size(), live);
    ASSERT_EQ(shard_.waiters_count(), model_.waiting());
  }

  // Grants of one key have one order; between keys any order of the same instant is right.
  void compare_grants() {
    std::map<std::string, std::vector<std::string>> right;
    std::map<std::string, std::vector<std::string>> given;
    std::map<api::Ticket, std::string> key_of;
    for (const ShardModel::Grant& grant : model_.grants) {
      key_of[grant.ticket] = grant.key;
      right[grant.key].push_back(line(grant.ticket, grant.verdict, grant.detail));
    }
    for (const api::Grant& grant : shard_.grants()) {
      given[key_of[grant.ticket]].push_back(line(grant.ticket, grant.verdict, grant.detail));
      ++seen[grant.verdict];
    }
    ASSERT_EQ(given, right);
    shard_.keep_grants(0);
    model_.grants.clear();
  }

  static std::string line(api::Ticket ticket, Verdict verdict, const api::Detail& detail) {
    return std::to_string(ticket) + " " + std::string(api::verdict_name(verdict)) + ": " +
           text_of(detail);
  }

  base::Now now() const { return {.monotonic_ns = now_ns_, .wall_ns = 0}; }

  Dice dice_;
  Shape shape_;
  Options options_;
  KeyShard shard_;
  ShardModel model_;
  int64_t now_ns_ = 0;
  api::Ticket next_ticket_ = 1;
  std::vector<std::pair<api::WaiterId, api::Ticket>> waiting_;
  std::vector<std::pair<api::Handle, std::string>> held_;  // once for every intern()
};

void compare(uint64_t seeds_count, const Shape& shape, const std::vector<Verdict>& must_occur,
             bool must_evict) {
  std::map<Verdict, uint64_t> seen;
  uint64_t evictions = 0;
  uint64_t adoptions = 0;
  uint64_t by_handle = 0;
  uint64_t looks = 0;
  for (const uint64_t seed : property_seeds(seeds_count)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    ShardComparison comparison(seed, shape);
    comparison.run();
    for (const auto& [verdict, count] : comparison.seen) seen[verdict] += count;
    evictions += comparison.evictions();
    adoptions += comparison.adoptions;
    by_handle += comparison.by_handle;
    looks += comparison.looks;
    if (testing::Test::HasFailure()) return;
  }
  uint64_t all = 0;
  for (const auto& [verdict, count] : seen) {
    std::printf("  %s %lu\n", std::string(api::verdict_name(verdict)).c_str(), count);
    all += count;
  }
  std::printf("  %lu outcomes compared, %lu by handle, %lu keys evicted, %lu times new rules\n",
              all, by_handle, evictions, adoptions);
  if (std::getenv("SEED") != nullptr) return;
  for (const Verdict verdict : must_occur) {
    EXPECT_GT(seen[verdict], 0U) << api::verdict_name(verdict);
  }
  EXPECT_EQ(evictions > 0, must_evict);
  EXPECT_GT(adoptions, 0U);
  EXPECT_GT(by_handle, 0U);
  EXPECT_GT(looks, 0U);
}

const std::vector<Verdict> always_expected{
    Verdict::approved,     Verdict::denied,    Verdict::queued,
    Verdict::waiters_full, Verdict::draining,  Verdict::connection_waiters_full,
    Verdict::not_allowed,  Verdict::withdrawn, Verdict::never_fits,
    Verdict::invalid_key,  Verdict::wait_limit};

TEST(ShardProperty, answers_as_the_model_with_room_for_all) {
  compare(5, {.keys_max = 400, .waiters_max = 60, .names_count = 200, .operations_count = 4'000},
          always_expected, false);
}

TEST(ShardProperty, answers_as_the_model_in_a_full_table) {
  std::vector<Verdict> must_occur = always_expected;
  must_occur.push_back(Verdict::table_full);
  compare(20, {.keys_max = 12, .waiters_max = 20, .names_count = 30, .operations_count = 12'000},
          must_occur, true);
}

// More policies than a bucket has numbers for.
TEST(ShardProperty, answers_as_the_model_with_many_rules) {
  compare(5,
          {.keys_max = 400,
           .waiters_max = 60,
           .names_count = 200,
           .operations_count = 3'000,
           .rules_every = 150,
           .rules_max = 150},
          always_expected, false);
}

TEST(ShardProperty, answers_as_the_model_while_the_table_grows) {
  compare(2,
          {.keys_max = 20'000, .waiters_max = 40, .names_count = 15'000, .operations_count = 1'500},
          {}, false);
}

}  // namespace
}  // namespace sluice::shard
