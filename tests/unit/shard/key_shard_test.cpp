// The behaviour of a shard for its caller: every verdict, detail and grant, one rule a test. Time
// is set by hand, windows last 1,000 ms.
#include "shard/key_shard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;
using Grants = std::vector<std::pair<api::Ticket, Verdict>>;

class ShardTest : public testing::Test {
 protected:
  void TearDown() override { driver.shard.check_invariants(driver.now()); }

  // Takes all 10 permits of the window.
  void exhaust(std::string_view key) {
    ASSERT_EQ(driver.acquire(key, {.cost = 10}), Verdict::approved);
  }
  void queue(std::string_view key, api::Ticket ticket, uint32_t cost = 1,
             uint32_t wait_ms_max = 0) {
    ASSERT_EQ(
        driver.acquire(
            key, {.cost = cost, .may_wait = true, .ticket = ticket, .wait_ms_max = wait_ms_max}),
        Verdict::queued);
  }

  ShardDriver driver;
};

TEST_F(ShardTest, approves_up_to_the_limit) {
  for (int count = 0; count < 10; ++count) EXPECT_EQ(driver.acquire("a"), Verdict::approved);
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  EXPECT_EQ(driver.acquire("b"), Verdict::approved);
}

TEST_F(ShardTest, a_key_is_the_same_by_its_text_and_by_its_hash) {
  constexpr size_t count = 40;  // more than a group
  const std::string key = "key";
  const std::vector<api::Entry> entries(count, {.key_data = key.data(), .key_bytes = 3});
  const std::vector<KeyHash> hashes(count, hash_key(key, test_secret()));
  std::vector<Verdict> verdicts(count);
  std::vector<api::Detail> details(count);
  std::vector<api::WaiterId> waiters(count);
  const Answers answers{.verdicts = verdicts, .details = details, .waiters = waiters};
  driver.shard.decide(std::span(entries).first(4), answers, driver.now(), 0);
  driver.shard.decide(entries, hashes, answers, driver.now(), 0);
  EXPECT_EQ(std::ranges::count(verdicts, Verdict::approved), 6);
  EXPECT_EQ(verdicts[5], Verdict::approved);
  EXPECT_EQ(verdicts[6], Verdict::denied);
  EXPECT_EQ(driver.shard.keys_count(), 1U);
}

TEST_F(ShardTest, counts_cost) {
  EXPECT_EQ(driver.acquire("a", {.cost = 7}), Verdict::approved);
  EXPECT_EQ(driver.acquire("a", {.cost = 4}), Verdict::denied);
  EXPECT_EQ(driver.acquire("a", {.cost = 3}), Verdict::approved);
}

TEST_F(ShardTest, window_is_anchored_at_the_first_request_and_rounded_up) {
  driver.now_ns += 1;
  exhaust("a");
  driver.now_ns += 1'000 * base::ns_per_ms;  // 1 ns short of the promised, rounded-up end
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  driver.now_ns += base::ns_per_ms - 1;
  EXPECT_EQ(driver.acquire("a"), Verdict::approved);
}

TEST_F(ShardTest, window_ends_to_the_nanosecond) {
  exhaust("a");
  driver.now_ns += 1'000 * base::ns_per_ms - 1;
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  driver.now_ns += 1;
  EXPECT_EQ(driver.acquire("a"), Verdict::approved);
}

TEST_F(ShardTest, windows_keep_their_phase) {
  driver.acquire("a");
  driver.advance_ms(2'300);
  exhaust("a");
  EXPECT_EQ(driver.detail.reset_ms, 700);
  driver.advance_ms(700);
  EXPECT_EQ(driver.acquire("a"), Verdict::approved);
}

TEST_F(ShardTest, reports_details) {
  driver.detail.request_id = 77;
  driver.acquire("a", {.cost = 3});
  EXPECT_EQ(driver.detail.limit, 10U);
  EXPECT_EQ(driver.detail.remaining, 7U);
  EXPECT_EQ(driver.detail.window_ms, 1'000);
  EXPECT_EQ(driver.detail.reset_ms, 1'000);
  EXPECT_EQ(driver.detail.retry_after_ms, 0);
  EXPECT_EQ(driver.detail.request_id, 77U);
  driver.now_ns += 1;
  EXPECT_EQ(driver.acquire("a", {.cost = 8}), Verdict::denied);
  EXPECT_EQ(driver.detail.remaining, 7U);
  EXPECT_EQ(driver.detail.reset_ms, 1'000);
  EXPECT_EQ(driver.detail.retry_after_ms, 1'000);
}

TEST_F(ShardTest, writes_details_only_when_asked_for) {
  api::Entry entry = ShardDriver::entry("a", {});
  entry.flags = 0;
  EXPECT_EQ(driver.decide(entry), Verdict::approved);
  EXPECT_EQ(driver.detail.limit, 0U);
}

TEST_F(ShardTest, refuses_empty_and_long_keys) {
  EXPECT_EQ(driver.acquire(""), Verdict::invalid_key);
  EXPECT_EQ(driver.acquire(std::string(65, 'x')), Verdict::invalid_key);
  EXPECT_EQ(driver.acquire(std::string(64, 'x')), Verdict::approved);
  EXPECT_EQ(driver.release(""), Verdict::approved);
  EXPECT_FALSE(driver.shard.inspect("", driver.now()));
  EXPECT_EQ(driver.shard.keys_count(), 1U);
}

TEST_F(ShardTest, cost_above_the_limit_never_fits_and_makes_no_key) {
  EXPECT_EQ(driver.acquire("a", {.cost = 11}), Verdict::never_fits);
  EXPECT_EQ(driver.detail.retry_after_ms, 0);
  EXPECT_EQ(driver.shard.keys_count(), 0U);
  EXPECT_EQ(driver.acquire("a", {.cost = 11, .max_requests = 11}), Verdict::approved);
}

TEST_F(ShardTest, override_of_a_cost_that_never_fits_is_dropped) {
  driver.acquire("a");
  EXPECT_EQ(driver.acquire("a", {.cost = 5, .max_requests = 4}), Verdict::never_fits);
  EXPECT_EQ(driver.detail.limit, 10U);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->max_requests, 10U);
}

TEST_F(ShardTest, overrides_stay_with_the_key) {
  driver.acquire("a", {.max_requests = 2, .max_requests_in_queue = 1});
  driver.acquire("a");
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.acquire("a", {.cost = 3}), Verdict::never_fits);
  EXPECT_EQ(driver.acquire("a", {.cost = 2}), Verdict::approved);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->max_requests_in_queue, 1U);
}

TEST_F(ShardTest, override_holds_although_the_request_is_denied) {
  exhaust("a");
  EXPECT_EQ(driver.acquire("a", {.max_requests = 5}), Verdict::denied);
  EXPECT_EQ(driver.detail.limit, 5U);
  EXPECT_EQ(driver.detail.remaining, 0U);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 10U);
}

TEST_F(ShardTest, window_of_a_request_begins_at_once_and_keeps_the_counters) {
  driver.acquire("a", {.cost = 9});
  EXPECT_EQ(driver.acquire("a", {.cost = 2}), Verdict::denied);
  driver.now_ns += 400 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("a", {.window_ms = 5'000}), Verdict::approved);
  EXPECT_EQ(driver.detail.window_ms, 5'000);
  EXPECT_EQ(driver.detail.reset_ms, 5'000);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 10U);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->denied, 1U);
  driver.now_ns += 4'999 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  driver.now_ns += base::ns_per_ms;
  EXPECT_EQ(driver.acquire("a"), Verdict::approved);
  EXPECT_EQ(driver.detail.reset_ms, 5'000);
}

TEST_F(ShardTest, window_of_a_request_is_that_of_a_new_key) {
  driver.now_ns += 1;
  driver.acquire("a", {.max_requests = 5, .window_ms = 60'000});
  EXPECT_EQ(driver.detail.limit, 5U);
  EXPECT_EQ(driver.detail.window_ms, 60'000);
  EXPECT_EQ(driver.detail.reset_ms, 60'000);
  driver.acquire("b");
  EXPECT_EQ(driver.detail.window_ms, 1'000);
}

TEST_F(ShardTest, same_window_again_does_not_begin_anew) {
  driver.acquire("a", {.window_ms = 5'000});
  driver.now_ns += 1'000 * base::ns_per_ms;
  driver.acquire("a", {.window_ms = 5'000});
  EXPECT_EQ(driver.detail.reset_ms, 4'000);
  driver.acquire("b", {.window_ms = 1'000});  // what the key has by the rules
  driver.now_ns += 500 * base::ns_per_ms;
  driver.acquire("b", {.window_ms = 1'000});
  EXPECT_EQ(driver.detail.reset_ms, 500);
}

TEST_F(ShardTest, window_of_a_request_stays_until_the_key_is_forgotten) {
  driver.acquire("a", {.window_ms = 5'000});
  driver.now_ns += 19'999 * base::ns_per_ms;  // its window, and three idle ones
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->window_ms, 5'000);
  driver.now_ns += base::ns_per_ms;
  EXPECT_FALSE(driver.shard.inspect("a", driver.now()));
  driver.acquire("a");
  EXPECT_EQ(driver.detail.window_ms, 1'000);
}

TEST_F(ShardTest, window_of_a_request_holds_by_handle) {
  const api::Handle handle = driver.shard.intern("a");
  driver.acquire("a", {.cost = 10, .window_ms = 5'000});
  driver.now_ns += 4'999 * base::ns_per_ms;
  Verdict verdict = Verdict::none;
  driver.shard.decide(std::span(&handle, 1), {&verdict, 1}, driver.now());
  EXPECT_EQ(verdict, Verdict::denied);
  driver.now_ns += base::ns_per_ms;
  driver.shard.decide(std::span(&handle, 1), {&verdict, 1}, driver.now());
  EXPECT_EQ(verdict, Verdict::approved);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->reset_ms, 5'000);
}

TEST_F(ShardTest, waiters_follow_a_window_of_another_length) {
  exhaust("a");
  queue("a", 1);
  EXPECT_EQ(driver.acquire("a", {.window_ms = 100}), Verdict::denied);
  driver.advance_ms(99);
  EXPECT_TRUE(driver.take_grants().empty());
  driver.advance_ms(1);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, windows_in_turn_do_not_keep_a_full_window_from_ending) {
  exhaust("a");
  for (int turn = 0; turn < 9; ++turn) {
    driver.advance_ms(100);
    EXPECT_EQ(driver.acquire("a", {.window_ms = turn % 2 == 0 ? 5'000 : 1'000}), Verdict::denied);
  }
  EXPECT_EQ(driver.detail.reset_ms, 100);
  driver.advance_ms(100);
  EXPECT_EQ(driver.acquire("a", {.window_ms = 5'000}), Verdict::approved);
  EXPECT_EQ(driver.detail.reset_ms, 5'000);
}

TEST_F(ShardTest, window_of_a_waiter_does_not_make_others_wait_longer) {
  exhaust("a");
  driver.acquire("a", {.may_wait = true, .window_ms = 5'000, .ticket = 1});
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, grants_of_a_request_that_is_denied_can_be_refunded) {
  exhaust("a");
  queue("a", 1);
  EXPECT_EQ(driver.acquire("a", {.cost = 5, .max_requests = 12, .window_ms = 5'000}),
            Verdict::denied);
  ASSERT_EQ(driver.shard.grants().size(), 1U);
  const api::Grant grant = driver.shard.grants()[0];
  EXPECT_EQ(grant.detail.reset_ms, 1'000);
  EXPECT_TRUE(driver.shard.refund(grant.refund_claim, driver.now()));
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 10U);
}

TEST_F(ShardTest, look_changes_nothing) {
  driver.acquire("a", {.cost = 3});
  driver.advance_ms(400);
  driver.detail.request_id = 77;
  EXPECT_EQ(driver.look("a"), Verdict::approved);
  EXPECT_EQ(driver.detail.request_id, 0U);
  EXPECT_EQ(driver.detail.remaining, 7U);
  EXPECT_EQ(driver.detail.reset_ms, 600);
  EXPECT_EQ(driver.detail.retry_after_ms, 0);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 3U);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->denied, 0U);
  EXPECT_EQ(driver.decided(Verdict::approved), 1U);
  driver.advance_ms(3'600);
  EXPECT_FALSE(driver.shard.inspect("a", driver.now()));
}

TEST_F(ShardTest, look_shows_when_a_full_window_ends) {
  exhaust("a");
  driver.advance_ms(400);
  EXPECT_EQ(driver.look("a"), Verdict::approved);
  EXPECT_EQ(driver.detail.remaining, 0U);
  EXPECT_EQ(driver.detail.retry_after_ms, 600);
}

TEST_F(ShardTest, look_makes_no_key) {
  EXPECT_EQ(driver.look("a"), Verdict::approved);
  EXPECT_EQ(driver.detail.limit, 10U);
  EXPECT_EQ(driver.detail.remaining, 10U);
  EXPECT_EQ(driver.detail.reset_ms, 0);
  EXPECT_EQ(driver.shard.keys_count(), 0U);
  EXPECT_EQ(driver.look(""), Verdict::invalid_key);
}

TEST_F(ShardTest, waiters_learn_their_positions) {
  exhaust("a");
  queue("a", 1);
  EXPECT_EQ(driver.detail.position, 1U);
  queue("a", 2);
  EXPECT_EQ(driver.detail.position, 2U);
  driver.look("a");
  EXPECT_EQ(driver.detail.position, 0U);
}

TEST_F(ShardTest, inspection_shows_the_first_waiters) {
  Options options = test_options();
  options.policy.max_requests_in_queue = 50;
  ShardDriver deep(options);
  deep.acquire("a", {.cost = 10});
  EXPECT_TRUE(deep.shard.inspect("a", deep.now())->waiting_costs.empty());
  for (api::Ticket ticket = 1; ticket <= 25; ++ticket) {
    deep.acquire("a", {.cost = 1 + ticket % 3, .may_wait = true, .ticket = ticket});
  }
  const auto shown = deep.shard.inspect("a", deep.now());
  EXPECT_EQ(shown->waiting, 25U);
  ASSERT_EQ(shown->waiting_costs.size(), limits::shown_waiters_max);
  for (uint32_t place = 0; place < limits::shown_waiters_max; ++place) {
    EXPECT_EQ(shown->waiting_costs[place], 1 + (place + 1) % 3);
  }
}

TEST_F(ShardTest, window_of_a_cost_that_never_fits_is_dropped) {
  driver.acquire("a");
  EXPECT_EQ(driver.acquire("a", {.cost = 11, .window_ms = 5'000}), Verdict::never_fits);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->window_ms, 1'000);
}

TEST_F(ShardTest, forbidden_overrides_change_nothing) {
  Options options = test_options();
  options.requests_can_set_rate = false;
  options.requests_can_mod_queue = false;
  options.requests_can_set_window = false;
  ShardDriver strict(options);
  EXPECT_EQ(strict.acquire("a", {.max_requests = 20}), Verdict::not_allowed);
  EXPECT_EQ(strict.acquire("a", {.max_requests_in_queue = 20}), Verdict::not_allowed);
  EXPECT_EQ(strict.acquire("a", {.window_ms = 1'000}), Verdict::not_allowed);
  EXPECT_EQ(strict.shard.keys_count(), 0U);
  EXPECT_EQ(strict.acquire("a"), Verdict::approved);
}

TEST_F(ShardTest, waiter_is_served_at_the_window_end) {
  exhaust("a");
  queue("a", 1);
  EXPECT_EQ(driver.detail.retry_after_ms, 1'000);
  driver.advance_ms(999);
  EXPECT_EQ(driver.take_grants(), Grants{});
  driver.advance_ms(1);
  ASSERT_EQ(driver.shard.grants().size(), 1U);
  EXPECT_EQ(driver.shard.grants()[0].detail.remaining, 9U);
  EXPECT_EQ(driver.shard.grants()[0].detail.reset_ms, 1'000);
  EXPECT_EQ(driver.shard.grants()[0].detail.retry_after_ms, 0);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
  EXPECT_EQ(driver.shard.waiters_count(), 0U);
}

TEST_F(ShardTest, next_due_is_the_window_end_of_a_key_with_waiters) {
  exhaust("a");
  EXPECT_EQ(driver.shard.next_due_ns(), base::never_ns);
  queue("a", 1);
  EXPECT_GT(driver.shard.next_due_ns(), driver.now_ns);
  EXPECT_LE(driver.shard.next_due_ns(), driver.now_ns + 1'000 * base::ns_per_ms);
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants().size(), 1U);
}

TEST_F(ShardTest, serves_the_queue_in_order_as_far_as_it_fits) {
  exhaust("a");
  queue("a", 1, 6);
  queue("a", 2, 6);
  queue("a", 3, 1);
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));  // 3 would fit, 2 stands first
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), (Grants{{2, Verdict::approved}, {3, Verdict::approved}}));
}

TEST_F(ShardTest, newcomer_never_overtakes) {
  driver.acquire("a", {.cost = 5});
  queue("a", 1, 6);
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);  // although 5 permits are left
  queue("a", 2, 1);
  EXPECT_EQ(driver.take_grants(), Grants{});
}

TEST_F(ShardTest, queue_comes_before_a_newcomer_also_when_no_timer_ran) {
  exhaust("a");
  queue("a", 1, 10);
  driver.now_ns += 1'000 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, full_queue_denies) {
  exhaust("a");
  for (api::Ticket ticket = 0; ticket < 5; ++ticket) queue("a", ticket);
  EXPECT_EQ(driver.acquire("a", {.may_wait = true}), Verdict::denied);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->waiting, 5U);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->denied, 1U);
}

TEST_F(ShardTest, queue_of_zero_turns_waiting_off) {
  exhaust("a");
  EXPECT_EQ(driver.acquire("a", {.may_wait = true, .max_requests_in_queue = 0}), Verdict::denied);
}

TEST_F(ShardTest, lowered_queue_limit_keeps_its_waiters) {
  exhaust("a");
  queue("a", 1);
  queue("a", 2);
  EXPECT_EQ(driver.acquire("a", {.may_wait = true, .max_requests_in_queue = 1}), Verdict::denied);
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants().size(), 2U);
}

TEST_F(ShardTest, refuses_waiters_without_room_and_counts_no_denial) {
  Options options = test_options();
  options.waiters_max = 2;
  ShardDriver small(options);
  small.acquire("a", {.cost = 10});
  small.acquire("a", {.may_wait = true, .ticket = 1});
  EXPECT_EQ(small.acquire("a", {.may_wait = true, .full_flag = api::flag::waiters_full}),
            Verdict::waiters_full);
  EXPECT_EQ(small.acquire("b", {.cost = 10}), Verdict::approved);
  EXPECT_EQ(small.acquire("b", {.may_wait = true, .full_flag = api::flag::connection_waiters_full}),
            Verdict::connection_waiters_full);
  small.acquire("b", {.may_wait = true, .ticket = 2});
  EXPECT_EQ(small.acquire("a", {.may_wait = true}), Verdict::waiters_full);
  EXPECT_EQ(small.acquire("b", {.may_wait = true}), Verdict::waiters_full);
  EXPECT_EQ(small.shard.inspect("a", small.now())->denied, 0U);
  EXPECT_EQ(small.shard.inspect("b", small.now())->denied, 0U);
}

TEST_F(ShardTest, one_key_has_as_many_waiters_as_places_are_free) {
  Options options = test_options();
  options.waiters_max = 8;
  options.policy.max_requests_in_queue = 100;
  ShardDriver small(options);
  const auto waiters_of = [&](std::string_view key) {
    small.acquire(key, {.cost = 10});
    uint32_t count = 0;
    while (small.acquire(key, {.may_wait = true, .ticket = count}) == Verdict::queued) ++count;
    return count;
  };
  EXPECT_EQ(waiters_of("a"), 4U);
  EXPECT_EQ(small.acquire("a", {.may_wait = true}), Verdict::key_waiters_full);
  EXPECT_EQ(waiters_of("b"), 2U);
  EXPECT_EQ(waiters_of("c"), 1U);
  EXPECT_EQ(waiters_of("d"), 1U);
  EXPECT_EQ(small.acquire("a", {.may_wait = true}), Verdict::waiters_full);
  EXPECT_EQ(small.shard.inspect("a", small.now())->denied, 0U);
}

TEST_F(ShardTest, grants_not_fetched_yet_take_up_waiter_room) {
  Options options = test_options();
  options.waiters_max = 1;
  ShardDriver small(options);
  small.acquire("a", {.cost = 10});
  EXPECT_EQ(small.acquire("a", {.may_wait = true, .ticket = 1}), Verdict::queued);
  small.release("a");
  EXPECT_EQ(small.acquire("a", {.may_wait = true, .ticket = 2}), Verdict::waiters_full);
  EXPECT_EQ(small.take_grants(), (Grants{{1, Verdict::approved}}));
  EXPECT_EQ(small.acquire("a", {.may_wait = true, .ticket = 2}), Verdict::queued);
}

TEST_F(ShardTest, release_makes_room) {
  exhaust("a");
  EXPECT_EQ(driver.release("a", 2), Verdict::approved);
  EXPECT_EQ(driver.acquire("a", {.cost = 2}), Verdict::approved);
  EXPECT_EQ(driver.release("a", 1'000), Verdict::approved);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 0U);
  EXPECT_EQ(driver.shard.statistics().released, 2U);
}

TEST_F(ShardTest, release_serves_the_queue_at_once) {
  exhaust("a");
  queue("a", 1, 3);
  queue("a", 2, 1);
  driver.release("a", 2);
  EXPECT_EQ(driver.take_grants(), Grants{});
  driver.release("a", 2);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}, {2, Verdict::approved}}));
}

TEST_F(ShardTest, release_makes_no_key) {
  EXPECT_EQ(driver.release("a"), Verdict::approved);
  EXPECT_EQ(driver.shard.keys_count(), 0U);
  EXPECT_EQ(driver.shard.statistics().released, 0U);
}

TEST_F(ShardTest, refund_is_of_the_window_that_had_begun) {
  const auto now_ms = [this] { return base::floor_ms(driver.now().monotonic_ns); };
  const auto approved = [this] { return driver.shard.inspect("a", driver.now())->approved; };
  const int64_t before_ms = now_ms();
  driver.advance_ms(5);
  exhaust("a");
  const int64_t taken_ms = now_ms();
  driver.advance_ms(20);
  EXPECT_EQ(driver.refund("a", 4, before_ms), Verdict::approved);
  EXPECT_EQ(approved(), 10U) << "the window began behind it";
  EXPECT_EQ(driver.refund("a", 4, taken_ms), Verdict::approved);
  EXPECT_EQ(approved(), 6U);
  EXPECT_EQ(driver.refund("a", 1'000, now_ms()), Verdict::approved);
  EXPECT_EQ(approved(), 0U);

  driver.advance_ms(1'000);  // the next window
  exhaust("a");
  EXPECT_EQ(driver.refund("a", 4, taken_ms), Verdict::approved);
  EXPECT_EQ(approved(), 10U);
  EXPECT_EQ(driver.refund("unknown", 4, now_ms()), Verdict::approved);
  EXPECT_EQ(driver.refund("", 4, now_ms()), Verdict::approved);
  EXPECT_EQ(driver.shard.keys_count(), 1U);
  EXPECT_EQ(driver.shard.statistics().released, 0U);
}

TEST_F(ShardTest, refund_serves_the_queue) {
  exhaust("a");
  queue("a", 1, 3);
  driver.refund("a", 4, base::floor_ms(driver.now().monotonic_ns));
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, raised_limit_serves_the_queue_first) {
  exhaust("a");
  queue("a", 1, 2);
  EXPECT_EQ(driver.acquire("a", {.max_requests = 12}), Verdict::denied);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, lowered_limit_answers_waiters_that_no_longer_fit) {
  exhaust("a");
  queue("a", 1, 6);
  queue("a", 2, 2);
  queue("a", 3, 5);
  EXPECT_EQ(driver.acquire("a", {.max_requests = 4}), Verdict::denied);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::never_fits}, {3, Verdict::never_fits}}));
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), (Grants{{2, Verdict::approved}}));
}

TEST_F(ShardTest, wait_limit_ends_a_wait) {
  exhaust("a");
  queue("a", 1, 1, 300);
  driver.advance_ms(299);
  EXPECT_EQ(driver.take_grants(), Grants{});
  driver.advance_ms(1);
  ASSERT_EQ(driver.shard.grants().size(), 1U);
  EXPECT_EQ(driver.shard.grants()[0].detail.retry_after_ms, 700);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::wait_limit}}));
}

TEST_F(ShardTest, window_end_comes_before_a_wait_limit_of_the_same_instant) {
  exhaust("a");
  queue("a", 1, 10, 1'000);
  queue("a", 2, 1, 1'000);
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}, {2, Verdict::wait_limit}}));
}

TEST_F(ShardTest, late_call_keeps_the_order_of_due_timers) {
  exhaust("a");
  queue("a", 1, 1, 500);
  queue("a", 2, 1, 1'500);
  driver.advance_ms(5'700);
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::wait_limit}, {2, Verdict::approved}}));
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->reset_ms, 300);
}

TEST_F(ShardTest, head_that_leaves_makes_way_for_the_next) {
  driver.acquire("a", {.cost = 5});
  queue("a", 1, 6);
  const api::WaiterId head = driver.waiter;
  queue("a", 2, 5);
  EXPECT_TRUE(driver.shard.withdraw(head, 1, driver.now()));
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::withdrawn}, {2, Verdict::approved}}));
  EXPECT_FALSE(driver.shard.withdraw(head, 1, driver.now()));
}

TEST_F(ShardTest, abandoned_waiter_costs_nothing_and_gets_no_grant) {
  exhaust("a");
  queue("a", 1);
  EXPECT_FALSE(driver.shard.abandon(driver.waiter, 2, driver.now()));
  EXPECT_TRUE(driver.shard.abandon(driver.waiter, 1, driver.now()));
  EXPECT_FALSE(driver.shard.abandon(driver.waiter, 1, driver.now()));
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.take_grants(), Grants{});
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->approved, 0U);
}

TEST_F(ShardTest, drain_answers_every_waiter_in_queue_order) {
  exhaust("a");
  queue("a", 1);
  queue("a", 2);
  driver.shard.drain(driver.now());
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::draining}, {2, Verdict::draining}}));
  EXPECT_EQ(driver.shard.waiters_count(), 0U);
  EXPECT_EQ(driver.shard.next_due_ns() <= driver.now_ns, false);
}

TEST_F(ShardTest, idle_key_is_forgotten_after_three_windows) {
  driver.acquire("a", {.max_requests = 20});
  driver.now_ns += 3'999 * base::ns_per_ms;
  EXPECT_TRUE(driver.shard.inspect("a", driver.now()));
  driver.now_ns += base::ns_per_ms;
  EXPECT_FALSE(driver.shard.inspect("a", driver.now()));
  driver.now_ns += 500 * base::ns_per_ms;
  driver.acquire("a");
  EXPECT_EQ(driver.detail.limit, 10U);
  EXPECT_EQ(driver.detail.reset_ms, 1'000);
  EXPECT_EQ(driver.shard.statistics().keys_expired, 1U);
}

TEST_F(ShardTest, release_and_denial_are_use_and_inspection_is_not) {
  for (const char* key : {"released", "denied", "shown"}) exhaust(key);
  driver.now_ns += 3'500 * base::ns_per_ms;
  driver.release("released");
  driver.acquire("denied", {.cost = 10});
  EXPECT_EQ(driver.acquire("denied"), Verdict::denied);
  EXPECT_TRUE(driver.shard.inspect("shown", driver.now()));
  driver.now_ns += 3'000 * base::ns_per_ms;
  EXPECT_TRUE(driver.shard.inspect("released", driver.now()));
  EXPECT_TRUE(driver.shard.inspect("denied", driver.now()));
  EXPECT_FALSE(driver.shard.inspect("shown", driver.now()));
}

TEST_F(ShardTest, sweep_forgets_expired_keys) {
  for (int key = 0; key < 100; ++key) driver.acquire(std::to_string(key));
  for (int step = 0; step < 100; ++step) driver.advance_ms(100);
  EXPECT_EQ(driver.shard.keys_count(), 0U);
  EXPECT_EQ(driver.shard.statistics().keys_expired, 100U);
}

TEST_F(ShardTest, listener_gets_each_expired_key_once) {
  struct Listener final : ExpiryListener {
    void on_expired(std::string_view key) noexcept override { keys.emplace_back(key); }
    std::vector<std::string> keys;
  };
  Listener listener;
  Options options = test_options();
  options.keys_max = 2;
  options.expiry_listener = &listener;
  ShardDriver listened(options);
  listened.acquire("anew");
  listened.now_ns += 5'000 * base::ns_per_ms;
  listened.acquire("anew");  // where the expired one was
  listened.acquire("reclaimed", {.max_requests = 20});
  listened.now_ns += 5'000 * base::ns_per_ms;
  listened.acquire("anew");
  listened.acquire("swept");  // there is room for two
  EXPECT_EQ(listener.keys, (std::vector<std::string>{"anew", "anew", "reclaimed"}));
  for (int step = 0; step < 100; ++step) listened.advance_ms(100);
  EXPECT_EQ(listener.keys.size(), 5U);
  EXPECT_EQ(listened.shard.statistics().keys_expired, 5U);
}

TEST_F(ShardTest, release_reports_the_limit_of_a_live_key) {
  driver.acquire("a", {.max_requests = 20});
  driver.release("a");
  EXPECT_EQ(driver.detail.limit, 20U);
  driver.release("unknown");
  EXPECT_EQ(driver.detail.limit, 0U);
}

policy::Rule all_keys(int64_t window_ms) {
  return {.pattern = ".*", .is_regex = true, .window_ms = window_ms};
}

// The key is not used between the two: the first has made its window an hour long.
TEST_F(ShardTest, approvals_outlast_two_changes_of_rules) {
  const auto adopt = [&] {
    driver.shard.adopt(
        std::make_unique<policy::RuleBook>(test_options().policy, std::vector{all_keys(3'600'000)}),
        driver.now());
  };
  exhaust("plain");
  driver.acquire("extra", {.cost = 10, .max_requests_in_queue = 4});
  driver.now_ns += 500 * base::ns_per_ms;
  adopt();
  driver.now_ns += 9'000 * base::ns_per_ms;
  adopt();
  for (const char* key : {"plain", "extra"}) {
    EXPECT_EQ(driver.acquire(key), Verdict::denied) << key;
    EXPECT_EQ(driver.detail.reset_ms, 3'591'000) << key;
  }
}

TEST_F(ShardTest, new_rules_for_a_key_end_the_window_of_a_request) {
  const auto adopt = [&](int64_t window_ms) {
    driver.shard.adopt(
        std::make_unique<policy::RuleBook>(test_options().policy, std::vector{all_keys(window_ms)}),
        driver.now());
  };
  driver.acquire("a", {.cost = 10, .window_ms = 5'000});
  driver.now_ns += 2'000 * base::ns_per_ms;
  adopt(1'000);  // the rules of the key are as before
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  EXPECT_EQ(driver.detail.reset_ms, 3'000);
  adopt(2'000);
  EXPECT_EQ(driver.acquire("a"), Verdict::denied);
  EXPECT_EQ(driver.detail.window_ms, 2'000);
  EXPECT_EQ(driver.detail.reset_ms, 2'000);
}

TEST_F(ShardTest, very_frequent_rules_grant_no_approvals_again) {
  exhaust("plain");
  driver.acquire("extra", {.cost = 10, .max_requests_in_queue = 4});
  for (int count = 0; count < 200; ++count) {
    driver.shard.adopt(std::make_unique<policy::RuleBook>(test_options().policy,
                                                          std::vector{all_keys(3'600'000 + count)}),
                       driver.now());
    driver.now_ns += base::ns_per_ms;
  }
  EXPECT_EQ(driver.acquire("plain"), Verdict::denied);
  EXPECT_EQ(driver.acquire("extra"), Verdict::denied);
}

TEST_F(ShardTest, key_with_waiters_never_expires) {
  exhaust("a");
  queue("a", 1);
  driver.now_ns += 60'000 * base::ns_per_ms;
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->waiting, 1U);
  driver.run_due();
  EXPECT_EQ(driver.take_grants(), (Grants{{1, Verdict::approved}}));
}

TEST_F(ShardTest, full_table_refuses_while_every_window_runs) {
  for (int key = 0; key < 100; ++key) driver.acquire(std::to_string(key));
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  EXPECT_EQ(driver.acquire("5"), Verdict::approved);
  driver.now_ns += 1'000 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::approved);
  EXPECT_EQ(driver.shard.statistics().keys_evicted, 1U);
  EXPECT_EQ(driver.shard.keys_count(), 100U);
}

TEST_F(ShardTest, full_table_keeps_overrides_and_waiters) {
  for (int key = 0; key < 99; ++key) driver.acquire(std::to_string(key), {.max_requests = 20});
  exhaust("waits");
  queue("waits", 1);
  driver.now_ns += 1'500 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  EXPECT_EQ(driver.acquire("7", {.max_requests = 10}), Verdict::approved);  // no override any more
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  driver.now_ns += 500 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::approved);
  EXPECT_FALSE(driver.shard.inspect("7", driver.now()) &&
               driver.shard.inspect("waits", driver.now()));
}

// The last search has seen that no key can be evicted for a second.
TEST_F(ShardTest, full_table_sees_that_a_window_became_shorter) {
  for (int key = 0; key < 100; ++key) driver.acquire(std::to_string(key));
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  driver.acquire("5", {.window_ms = 10});
  driver.now_ns += 39 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::table_full);
  driver.now_ns += base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::approved);
  EXPECT_FALSE(driver.shard.inspect("5", driver.now()));
}

TEST_F(ShardTest, full_table_evicts_expired_keys_first) {
  driver.acquire("old", {.max_requests = 20});
  driver.now_ns += 2'500 * base::ns_per_ms;
  for (int key = 0; key < 99; ++key) driver.acquire(std::to_string(key));
  driver.now_ns += 1'500 * base::ns_per_ms;
  EXPECT_EQ(driver.acquire("new"), Verdict::approved);
  EXPECT_EQ(driver.shard.statistics().keys_expired, 1U);
  EXPECT_EQ(driver.shard.statistics().keys_evicted, 0U);
}

TEST_F(ShardTest, denials_are_counted_beyond_24_bits) {
  exhaust("a");
  const std::vector<api::Entry> entries(1 << 14, api::Entry{.key_data = "a", .key_bytes = 1});
  std::vector<Verdict> verdicts(entries.size());
  std::vector<api::Detail> details(entries.size());
  std::vector<api::WaiterId> waiters(entries.size());
  for (int batch = 0; batch < 1'025; ++batch) {
    driver.shard.decide(entries, {.verdicts = verdicts, .details = details, .waiters = waiters},
                        driver.now());
  }
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->denied, 1'025U << 14);
  driver.shard.check_invariants(driver.now());
  driver.advance_ms(1'000);
  EXPECT_EQ(driver.acquire("a"), Verdict::approved);
  EXPECT_EQ(driver.shard.inspect("a", driver.now())->denied, 0U);
}

TEST_F(ShardTest, counts_decisions_by_verdict) {
  exhaust("a");
  queue("a", 1);
  driver.acquire("a");
  driver.acquire("a", {.cost = 11});
  driver.release("a");
  EXPECT_EQ(driver.decided(Verdict::approved), 2U);
  EXPECT_EQ(driver.decided(Verdict::queued), 1U);
  EXPECT_EQ(driver.decided(Verdict::denied), 1U);
  EXPECT_EQ(driver.decided(Verdict::never_fits), 1U);
}

TEST_F(ShardTest, pages_list_each_key_once) {
  for (int key = 0; key < 100; ++key) driver.acquire(std::to_string(key));
  std::vector<std::string> reported;
  uint64_t cursor = 0;
  do {
    const Page page = driver.shard.page(cursor, 7, driver.now());
    for (const api::KeyState& state : page.keys) reported.emplace_back(state.key);
    cursor = page.next_cursor;
  } while (cursor != 0);
  std::sort(reported.begin(), reported.end());
  EXPECT_EQ(std::unique(reported.begin(), reported.end()), reported.end());
  EXPECT_EQ(reported.size(), 100U);
}

TEST_F(ShardTest, more_timers_than_one_call_handles_are_due_again_at_once) {
  Options options = test_options();
  options.keys_max = 20'000;
  options.waiters_max = 20'000;
  ShardDriver many(options);
  for (int key = 0; key < 10'000; ++key) {
    many.acquire(std::to_string(key), {.cost = 10});
    many.acquire(std::to_string(key), {.may_wait = true, .ticket = 1});
  }
  many.now_ns += 1'000 * base::ns_per_ms;
  many.shard.run_due(many.now());
  EXPECT_LT(many.shard.grants().size(), 10'000U);
  EXPECT_LE(many.shard.next_due_ns(), many.now_ns);
  EXPECT_EQ(many.acquire("9999"), Verdict::approved);  // after its waiter
  EXPECT_EQ(many.detail.remaining, 8U);
  many.run_due();
  EXPECT_EQ(many.shard.grants().size(), 10'000U);
}

}  // namespace
}  // namespace sluice::shard
