// Goal:   rates are those of the present, by verdict, for keys asked by text and by handle; other
//         operations do not count.
// Method: a key traffic fed by hand, and a shard asked on a clock of our own.
#include "shard/key_traffic.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "shard/key_shard.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

constexpr int64_t start_ms = 123'456;

void ask(KeyTraffic& traffic, const std::string& key, int64_t now_ms, uint64_t count = 1) {
  traffic.add(hash_key(key, HashSecret{}), key, Verdict::approved, count, now_ms);
}

TEST(KeyTraffic, reports_a_steady_rate_from_the_first_second_on) {
  KeyTraffic traffic{HashSecret{}};
  for (int64_t ms = 0; ms <= 60'000; ms += 10) {
    ask(traffic, "steady", start_ms + ms, 3);
    if (ms < 1'000 || ms % 370 != 0) continue;
    const auto keys = traffic.heaviest(10, start_ms + ms);
    ASSERT_EQ(keys.size(), 1U);
    EXPECT_NEAR(keys[0].per_s(), 300, 10) << "after " << ms << " ms";
  }
}

TEST(KeyTraffic, the_rate_of_a_moment_is_spread_over_a_second) {
  KeyTraffic traffic{HashSecret{}};
  ask(traffic, "k", start_ms, 50);
  EXPECT_NEAR(traffic.heaviest(10, start_ms)[0].per_s(), 50, 0.1);
}

TEST(KeyTraffic, past_traffic_fades) {
  KeyTraffic traffic{HashSecret{}};
  for (int64_t ms = 0; ms < 10'000; ms += 10) ask(traffic, "old", start_ms + ms, 100);
  for (int64_t ms = 10'000; ms < 20'000; ms += 10) ask(traffic, "new", start_ms + ms, 10);
  const auto keys = traffic.heaviest(10, start_ms + 20'000);
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].key, "new");
  EXPECT_NEAR(keys[0].per_s(), 1'000, 100);
  EXPECT_LT(keys[1].per_s(), 1'000);
  EXPECT_TRUE(traffic.heaviest(10, start_ms + 3'600'000).empty()) << "no entries any more";
}

TEST(KeyTraffic, a_single_entry_fades_slowly) {
  KeyTraffic traffic{HashSecret{}};
  ask(traffic, "k", start_ms);
  const auto rate_after = [&](int64_t ms) {
    const auto keys = traffic.heaviest(10, start_ms + ms);
    return keys.empty() ? 0 : keys[0].per_s();
  };
  EXPECT_NEAR(rate_after(1'999), 0.5, 0.01);
  EXPECT_NEAR(rate_after(3'999), 0.17, 0.01);
  EXPECT_TRUE(traffic.heaviest(10, start_ms + 20'000).empty());
}

TEST(KeyTraffic, lists_the_heaviest_first_and_no_more_than_asked_for) {
  KeyTraffic traffic{HashSecret{}};
  for (int i = 1; i <= 20; ++i) ask(traffic, std::to_string(i), start_ms, i * 10);
  const auto keys = traffic.heaviest(3, start_ms);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].key, "20");
  EXPECT_EQ(keys[1].key, "19");
  EXPECT_EQ(keys[2].key, "18");
}

class Questions {
 public:
  explicit Questions(KeyShard& shard) : shard_(shard) {}

  Verdict ask(std::string_view key, api::Entry entry = {}) {
    entry.key_data = key.data();
    entry.key_bytes = static_cast<uint16_t>(key.size());
    std::array<Verdict, 1> verdicts;
    std::array<api::Detail, 1> details;
    std::array<api::WaiterId, 1> waiters;
    shard_.decide({&entry, 1}, {verdicts, details, waiters}, now);
    return verdicts[0];
  }

  const base::Now now{.monotonic_ns = start_ms * base::ns_per_ms, .wall_ns = 0};

 private:
  KeyShard& shard_;
};

Options small_shard() {
  return {.keys_max = 100,
          .handles_max = 10,
          .waiters_max = 10,
          .policy = {.window_ms = 60'000, .max_requests = 2, .max_requests_in_queue = 1}};
}

TEST(KeyTraffic, a_shard_reports_its_decisions) {
  KeyShard shard(small_shard());
  Questions questions(shard);
  for (int i = 0; i < 5; ++i) questions.ask("k");
  ASSERT_EQ(questions.ask("k", {.flags = api::flag::may_wait, .ticket = 1}), Verdict::queued);
  const auto keys = shard.heaviest_keys(10, questions.now);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].key, "k");
  EXPECT_EQ(keys[0].approved_per_s, 2);
  EXPECT_EQ(keys[0].denied_per_s, 3);
  EXPECT_EQ(keys[0].queued_per_s, 1);
  EXPECT_EQ(keys[0].per_s_max, 6);
}

TEST(KeyTraffic, a_key_asked_by_handle_is_the_same_key) {
  KeyShard shard(small_shard());
  Questions questions(shard);
  questions.ask("k");
  const std::vector<api::Handle> handles(4, shard.intern("k"));
  std::vector<Verdict> verdicts(handles.size());
  shard.decide(handles, verdicts, questions.now);
  const auto keys = shard.heaviest_keys(10, questions.now);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].approved_per_s, 2);
  EXPECT_EQ(keys[0].denied_per_s, 3);
}

TEST(KeyTraffic, entries_that_acquire_no_permits_do_not_count) {
  KeyShard shard(small_shard());
  Questions questions(shard);
  ASSERT_EQ(questions.ask(""), Verdict::invalid_key);
  questions.ask("k", {.op = api::Op::release});
  EXPECT_TRUE(shard.heaviest_keys(10, questions.now).empty());
}

}  // namespace
}  // namespace sluice::shard
