// Goal: each call of a batch is decided once, by its shard; the undelivered reservations of an
//       ended session are cancelled, and those bound to it end, on every shard.
// Method: three shards in one thread, with quotas that admit everything and record the calls.
#include "server/quota_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/server/task_side.hpp"

namespace sluice::server {
namespace {

using api::QuotaOp;
using Ops = std::vector<QuotaOp>;

class QuotaTasksTest : public ::testing::Test {
 protected:
  void turn_all() {
    for (TaskSide* side : {&first_, &second_, &third_}) side->turn();
  }
  std::string subject_of(uint32_t shard) {
    std::string name;
    for (int number = 0; name.empty() || first_.mailboxes.owner_of(name).shard != shard; ++number) {
      name = "model" + std::to_string(number);
    }
    return name;
  }
  // A batch of a session of the first shard: a reserve for each of these subjects.
  api::QuotaBatch& batch_of(const std::vector<std::string>& subjects, uint64_t binding = 0) {
    api::QuotaBatch& batch = first_.tasks.take_batch();
    for (const std::string& subject : subjects) {
      batch.calls.push_back({.op = QuotaOp::reserve,
                             .subjects_count = 1,
                             .first_subject = static_cast<uint32_t>(batch.subjects.size()),
                             .binding = binding});
      batch.subjects.push_back(subject);
    }
    return batch;
  }

  WorkerGroup worker_group_{{.shards = 3}};
  TaskSide first_{worker_group_, 0};
  TaskSide second_{worker_group_, 1};
  TaskSide third_{worker_group_, 2};
};

TEST_F(QuotaTasksTest, a_batch_of_its_own_shard_is_decided_at_once) {
  const std::vector<std::string> subjects(2, subject_of(0));
  api::QuotaBatch& batch = batch_of(subjects);
  EXPECT_FALSE(first_.tasks.spans_shards(batch));
  first_.tasks.ask(first_.ended_session, 7, batch);
  EXPECT_EQ(first_.asked.calls, Ops(2, QuotaOp::reserve));
  EXPECT_FALSE(first_.awaits(7));
}

TEST_F(QuotaTasksTest, a_batch_of_several_shards_goes_from_one_to_the_next) {
  const std::vector<std::string> subjects{subject_of(2), subject_of(0), subject_of(1)};
  api::QuotaBatch& batch = batch_of(subjects);
  EXPECT_TRUE(first_.tasks.spans_shards(batch));
  first_.tasks.ask(first_.ended_session, 7, batch);
  EXPECT_TRUE(first_.awaits(7));
  for (int turn = 0; turn < 3; ++turn) turn_all();
  for (TaskSide* side : {&first_, &second_, &third_}) {
    EXPECT_EQ(side->asked.calls, Ops{QuotaOp::reserve});
  }
  EXPECT_FALSE(first_.awaits(7));
}

TEST_F(QuotaTasksTest, cancels_undelivered_reservations_at_their_shards) {
  const std::vector<std::string> subjects{subject_of(1)};
  first_.tasks.ask(first_.ended_session, 7, batch_of(subjects));
  for (int turn = 0; turn < 2; ++turn) turn_all();
  ASSERT_EQ(first_.backend.cancelled, (std::vector<uint64_t>{FakeQuotas::reservation(1, 1)}));
  first_.tasks.cancel_undelivered(first_.backend.cancelled[0]);
  EXPECT_TRUE(first_.tasks.has_own_calls());
  first_.tasks.make_own_calls();
  EXPECT_FALSE(first_.tasks.has_own_calls());
  for (int turn = 0; turn < 2; ++turn) turn_all();
  EXPECT_EQ(second_.asked.calls, (Ops{QuotaOp::reserve, QuotaOp::cancel}));
}

TEST_F(QuotaTasksTest, ends_binding_on_every_shard) {
  first_.tasks.end_binding(42);
  first_.tasks.make_own_calls();
  for (int turn = 0; turn < 3; ++turn) turn_all();
  for (TaskSide* side : {&first_, &second_, &third_}) {
    EXPECT_EQ(side->asked.calls, Ops{QuotaOp::end_binding});
  }
}

TEST_F(QuotaTasksTest, ends_binding_again_when_used_after_its_end) {
  const std::vector<std::string> subjects{subject_of(0)};
  first_.tasks.ask(first_.ended_session, 7, batch_of(subjects, 42));
  EXPECT_TRUE(first_.tasks.has_own_calls());
}

TEST_F(QuotaTasksTest, brings_calls_of_the_store_to_the_shards_that_they_name) {
  for (const api::ShardId shard : std::array<api::ShardId, 2>{1, 2}) {
    first_.quotas.outgoing_calls().push_back(
        {.op = QuotaOp::expire_part, .shard = shard, .reservation = FakeQuotas::reservation(0, 1)});
  }
  EXPECT_TRUE(first_.tasks.has_own_calls());
  first_.tasks.make_own_calls();
  for (int turn = 0; turn < 3; ++turn) turn_all();
  EXPECT_EQ(first_.asked.calls, Ops{});
  EXPECT_EQ(second_.asked.calls, Ops{QuotaOp::expire_part});
  EXPECT_EQ(third_.asked.calls, Ops{QuotaOp::expire_part});
  EXPECT_FALSE(first_.tasks.has_own_calls());
}

// ------------------------------------------------------------- batches that await a verdict

// A shard has a hold, until it applies the verdict on a call of the second and third shards.
class AwaitedVerdictTest : public QuotaTasksTest {
 protected:
  void ask(const session::Session& session, uint64_t id, const std::string& subject) {
    const std::vector<std::string> subjects{subject};
    first_.tasks.ask(session, id, batch_of(subjects));
  }
  void end_hold() {
    api::QuotaBatch& batch = second_.tasks.take_batch();
    batch.calls.push_back({.op = QuotaOp::record, .subjects_count = 2});
    subjects_ = {subject_of(1), subject_of(2)};
    batch.subjects.assign(subjects_.begin(), subjects_.end());
    second_.tasks.ask(second_.ended_session, 99, batch);
  }

  std::vector<std::string> subjects_;
};

TEST_F(AwaitedVerdictTest, keeps_a_batch_of_another_shard_until_then) {
  second_.asked.has_hold = true;
  ask(first_.ended_session, 7, subject_of(1));
  for (int turn = 0; turn < 3; ++turn) turn_all();
  EXPECT_TRUE(second_.tasks.keeps_any());
  EXPECT_TRUE(first_.awaits(7));
  second_.tasks.retry_kept();  // there is no verdict yet
  EXPECT_TRUE(second_.tasks.keeps_any());
  end_hold();
  for (int turn = 0; turn < 6; ++turn) {
    turn_all();
    second_.tasks.make_own_calls();
  }
  EXPECT_FALSE(second_.tasks.keeps_any());
  EXPECT_FALSE(first_.awaits(7));
  EXPECT_EQ(std::ranges::count(second_.asked.calls, QuotaOp::reserve), 1);
}

TEST_F(AwaitedVerdictTest, later_batches_of_the_connection_stay_behind) {
  first_.asked.has_hold = true;
  ask(first_.ended_session, 7, subject_of(0));
  EXPECT_TRUE(first_.tasks.keeps_any());
  first_.asked.has_hold = false;
  ask(first_.ended_session, 8, subject_of(0));
  EXPECT_TRUE(first_.awaits(8));
  EXPECT_TRUE(first_.asked.calls.empty());
}

TEST_F(QuotaTasksTest, own_calls_wait_for_a_free_task) {
  const std::string far = subject_of(1);
  for (uint64_t id = 0; id < first_.slots.count(); ++id) {
    first_.queries.inspect(first_.ended_session, id, far);
  }
  first_.tasks.end_binding(42);
  first_.tasks.make_own_calls();
  EXPECT_TRUE(first_.tasks.has_own_calls());
  turn_all();
  turn_all();
  first_.tasks.make_own_calls();
  EXPECT_FALSE(first_.tasks.has_own_calls());
}

}  // namespace
}  // namespace sluice::server
