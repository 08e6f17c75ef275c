// Goal:   each queue is in the order of arrival whichever waiter leaves it, and knows which may
//         overtake.
// Method: two subjects, one of which lets two overtake; waiters by hand, and at random beside a
// model of lists.
#include "quota/wait_queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::WaiterId;

class WaitQueuesTest : public testing::Test {
 protected:
  WaitQueuesTest() {
    api::Quota passing = quota_of({tpm(100)});
    passing.overtakers_max = 2;
    strict_ = driver_.make("strict", {tpm(100)});
    lenient_ = driver_.make("lenient", passing);
  }
  ~WaitQueuesTest() override { queues_.check_invariants(); }

  WaiterId join(std::initializer_list<SubjectIndex> subjects, const api::QuotaCall& call = {}) {
    return join_at({.ns = ++arrivals_}, subjects, call);
  }
  WaiterId join_at(const api::Arrival& arrival, std::initializer_list<SubjectIndex> subjects,
                   const api::QuotaCall& call = {}) {
    return queues_.join(TableDriver::request_of_all(subjects), {call, 0, arrival});
  }
  std::vector<WaiterId> queue_of(SubjectIndex subject) {
    std::vector<WaiterId> queue;
    for (const QueuePlace& at : driver_.subjects[subject].queue)
      queue.push_back(at.waiter->index());
    return queue;
  }
  void insert(std::vector<WaiterId>& queue, WaiterId index) {
    const auto at = std::ranges::find_if(
        queue, [&](WaiterId other) { return queues_[index].arrival < queues_[other].arrival; });
    queue.insert(at, index);
  }
  bool must_wait(SubjectIndex subject) {
    LimitedSubjects limited;
    driver_.subjects.read_limited_subject(subject, limited.emplace_back());
    return queues_.must_wait(limited, api::behind_all);
  }
  // The subjects that are to be served, in their order.
  std::vector<SubjectIndex> to_serve() {
    std::vector<SubjectIndex> taken;
    while (!driver_.subjects.to_serve().empty())
      taken.push_back(driver_.subjects.to_serve().take());
    return taken;
  }

  TableDriver driver_{{.subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 1'100,
                       .name_seed = 42,
                       .id_seed = 42}};
  WaitQueues& queues_ = driver_.queues;
  SubjectIndex strict_ = no_subject;
  SubjectIndex lenient_ = no_subject;
  int64_t arrivals_ = 0;
};

TEST_F(WaitQueuesTest, a_waiter_is_at_the_end_of_the_queue_of_every_subject) {
  const WaiterId first = join({strict_});
  const WaiterId second = join({lenient_, strict_});
  EXPECT_EQ(queue_of(strict_), (std::vector{first, second}));
  EXPECT_EQ(queue_of(lenient_), (std::vector{second}));
  EXPECT_TRUE(queues_.heads_all(first));
  EXPECT_FALSE(queues_.heads_all(second));
  EXPECT_EQ(queues_.queues_not_headed(second), (WaitQueues::SubjectList{strict_}));
}

TEST_F(WaitQueuesTest, one_that_arrived_earlier_joins_ahead_of_others) {
  const WaiterId last = join_at({.ns = 5, .number = 2}, {strict_});
  const WaiterId first = join_at({.ns = 4, .number = 9}, {lenient_, strict_});
  const WaiterId second = join_at({.ns = 5, .number = 1}, {strict_});
  EXPECT_EQ(queue_of(strict_), (std::vector{first, second, last}));
  EXPECT_TRUE(queues_.heads_all(first));
  EXPECT_FALSE(queues_.heads_all(last));
}

TEST_F(WaitQueuesTest, nobody_has_overtaken_a_new_head) {
  join_at({.ns = 5}, {lenient_});
  LimitedSubjects limited;
  driver_.subjects.read_limited_subject(lenient_, limited.emplace_back());
  for (int passed = 0; passed < 2; ++passed) queues_.count_overtaking(limited, api::behind_all);
  EXPECT_FALSE(queues_.allow_overtaking(limited));
  join_at({.ns = 4}, {lenient_});
  EXPECT_TRUE(queues_.allow_overtaking(limited));
}

TEST_F(WaitQueuesTest, when_the_head_leaves_the_queue_is_to_be_served) {
  const WaiterId first = join({strict_});
  const WaiterId second = join({strict_});
  const WaiterId third = join({strict_});
  queues_.leave(second);
  EXPECT_TRUE(to_serve().empty());  // none that may overtake comes nearer to the head
  queues_.leave(first);
  EXPECT_EQ(to_serve(), (std::vector{strict_}));
  EXPECT_EQ(queue_of(strict_), (std::vector{third}));
  queues_.leave(third);
  EXPECT_TRUE(to_serve().empty());
  EXPECT_FALSE(driver_.subjects[strict_].has_waiters());
}

TEST_F(WaitQueuesTest, where_some_may_overtake_any_waiter_that_leaves_may_help) {
  join({lenient_});
  const WaiterId second = join({lenient_});
  join({lenient_});
  queues_.leave(second);
  EXPECT_EQ(to_serve(), (std::vector{lenient_}));
}

TEST_F(WaitQueuesTest, a_newcomer_waits_behind_those_that_must_not_be_overtaken) {
  EXPECT_FALSE(must_wait(strict_));
  join({strict_});
  join({lenient_});
  EXPECT_TRUE(must_wait(strict_));
  EXPECT_FALSE(must_wait(lenient_));
}

TEST_F(WaitQueuesTest, as_many_overtake_as_the_quota_allows) {
  join({lenient_});
  const WaiterId second = join({lenient_});
  LimitedSubjects limited;
  driver_.subjects.read_limited_subject(lenient_, limited.emplace_back());
  for (int passed = 0; passed < 2; ++passed) {
    EXPECT_TRUE(queues_.may_overtake(second));
    EXPECT_TRUE(queues_.allow_overtaking(limited));
    queues_.count_overtaking(limited, api::behind_all);
  }
  EXPECT_FALSE(queues_.may_overtake(second));
  EXPECT_FALSE(queues_.allow_overtaking(limited));
  EXPECT_TRUE(must_wait(lenient_));
}

TEST_F(WaitQueuesTest, a_newcomer_waits_until_the_head_was_tried) {
  const WaiterId head = join({lenient_});
  queues_.mark(queues_[head].request.named());
  EXPECT_TRUE(queues_.is_to_be_tried(queues_[head]));
  EXPECT_TRUE(must_wait(lenient_));
  EXPECT_EQ(to_serve(), (std::vector{lenient_}));
  EXPECT_FALSE(queues_.is_to_be_tried(queues_[head]));
  EXPECT_FALSE(must_wait(lenient_));
}

TEST_F(WaitQueuesTest, only_queues_with_waiters_are_marked) {
  join({strict_});
  const Request both = TableDriver::request_of_all({lenient_, strict_});
  queues_.mark(both.named());
  EXPECT_EQ(to_serve(), (std::vector{strict_}));
}

TEST_F(WaitQueuesTest, a_waiter_is_known_by_its_ticket_and_origin) {
  const WaiterId index = queues_.join(TableDriver::request(strict_), {{.ticket = 5}, 3});
  EXPECT_TRUE(queues_.is_waiting(index, 5, 3));
  EXPECT_FALSE(queues_.is_waiting(index, 6, 3));
  EXPECT_FALSE(queues_.is_waiting(index, 5, 4));
  EXPECT_FALSE(queues_.is_waiting(api::no_waiter, 5, 3));
  queues_.leave(index);
  EXPECT_FALSE(queues_.is_waiting(index, 5, 3));
}

TEST_F(WaitQueuesTest, a_request_that_is_taken_takes_the_clients_id_along) {
  Request request = TableDriver::request(strict_);
  request.id = {.low = 1, .high = 2};
  const WaiterId index = queues_.join(request, {{.owner = "worker 7"}});
  EXPECT_EQ(queues_.owner_of(index), "worker 7");
  EXPECT_EQ(queues_.take_request(index).id, request.id);
  EXPECT_FALSE(queues_[index].request.id.is_set());
  const auto found = driver_.client_ids.find(request.id, [&](auto) { return request.id; });
  EXPECT_FALSE(found.has_value());
  queues_.leave(index);
}

TEST_F(WaitQueuesTest, wake_and_wait_limit_are_timers_of_the_waiter) {
  const WaiterId index = join({strict_}, {.wait_ms_max = 500});
  queues_.wake_at(index, driver_.clock.ns() + 200 * base::ns_per_ms);
  driver_.advance_ms(200);
  driver_.wheel.advance(driver_.clock.ms());
  const base::Timer* const wake = driver_.wheel.pop_due();
  ASSERT_NE(wake, nullptr);
  EXPECT_EQ(TimerTag::of(*wake).kind, TimerTag::wake);
  driver_.advance_ms(300);
  driver_.wheel.advance(driver_.clock.ms());
  const base::Timer* const limit = driver_.wheel.pop_due();
  ASSERT_NE(limit, nullptr);
  EXPECT_EQ(TimerTag::of(*limit).kind, TimerTag::wait_limit);
  EXPECT_EQ(TimerTag::of(*limit).index, index);
}

TEST_F(WaitQueuesTest, a_waiter_is_woken_after_a_minute_at_the_latest) {
  const WaiterId index = join({strict_});
  queues_.wake_at(index, driver_.clock.ns() + 3'600 * base::ns_per_s);
  EXPECT_EQ(queues_[index].wake.due_ms(), driver_.clock.ms() + 60'000);
}

TEST_F(WaitQueuesTest, keep_their_order_while_waiters_come_and_go) {
  std::mt19937_64 dice(7);
  std::vector<WaiterId> strict;
  std::vector<WaiterId> lenient;
  for (int step = 0; step < 5'000; ++step) {
    const bool joins = queues_.pool().used() < 40 && dice() % 2 == 0;
    if (joins) {
      const bool both = dice() % 2 == 0;
      const api::Arrival arrival{.ns = step - static_cast<int64_t>(dice() % 10),
                                 .number = static_cast<uint64_t>(step)};
      const WaiterId index =
          both ? join_at(arrival, {lenient_, strict_}) : join_at(arrival, {strict_});
      insert(strict, index);
      if (both) insert(lenient, index);
    } else if (!strict.empty()) {
      const WaiterId index = strict[dice() % strict.size()];
      queues_.leave(index);
      std::erase(strict, index);
      std::erase(lenient, index);
    }
    ASSERT_EQ(queue_of(strict_), strict);
    ASSERT_EQ(queue_of(lenient_), lenient);
  }
}

TEST_F(WaitQueuesTest, a_position_is_one_of_its_queue) {
  join({strict_});
  const WaiterId both = join({lenient_, strict_});
  EXPECT_EQ(queues_.position(both, lenient_), 1U);
  EXPECT_EQ(queues_.position(both, strict_), 2U);
  join_at({.ns = 0}, {lenient_});
  EXPECT_EQ(queues_.position(both, lenient_), 2U);
}

TEST_F(WaitQueuesTest, a_position_is_counted_up_to_a_bound) {
  WaiterId last = api::no_waiter;
  for (uint32_t count = 0; count < limits::position_max; ++count) last = join({strict_});
  EXPECT_EQ(queues_.position(last, strict_), limits::position_max);
  EXPECT_EQ(queues_.position(join({strict_}), strict_), limits::position_max);
}

}  // namespace
}  // namespace sluice::quota
