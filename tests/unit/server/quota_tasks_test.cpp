// Goal: each call of a batch is decided once, by its shard; the undelivered reservations of an
//       ended session are cancelled, and those bound to it end, on every shard.
// Method: three shards in one thread, with quotas that admit everything and record the calls.
#include "server/quota_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/server/fake_writer.hpp"
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
    for (int number = 0; name.empty() || first_.mailboxes.shard_of(name) != shard; ++number) {
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

TEST_F(QuotaTasksTest, the_leave_of_another_nodes_waiter_reaches_every_shard) {
  api::QuotaBatch& batch = first_.tasks.take_batch();
  batch.calls.push_back({.op = QuotaOp::leave_node, .cursor = 3});
  batch.stays_here = true;
  EXPECT_TRUE(first_.tasks.spans_shards(batch));
  first_.tasks.ask(first_.ended_session, 7, batch);
  for (int turn = 0; turn < 3; ++turn) turn_all();
  for (TaskSide* side : {&first_, &second_, &third_}) {
    EXPECT_EQ(side->asked.calls, Ops{QuotaOp::leave_node});
  }
}

// Whose home is another node: this one does not know which shard has it.
TEST_F(QuotaTasksTest, ends_a_part_on_every_shard) {
  api::QuotaBatch& batch = first_.tasks.take_batch();
  batch.calls.push_back({.op = QuotaOp::end_part,
                         .flags = api::quota_flag::cancels,
                         .reservation = FakeQuotas::reservation(0, 1)});
  batch.stays_here = true;
  first_.tasks.ask(first_.ended_session, 7, batch);
  for (int turn = 0; turn < 3; ++turn) turn_all();
  for (TaskSide* side : {&first_, &second_, &third_}) {
    EXPECT_EQ(side->asked.calls, Ops{QuotaOp::end_part});
  }
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

  // The same of the first shard, whose own store is home.
  void end_hold_at_first() {
    api::QuotaBatch& batch = first_.tasks.take_batch();
    batch.calls.push_back({.op = QuotaOp::record, .subjects_count = 2});
    subjects_ = {subject_of(0), subject_of(1)};
    batch.subjects.assign(subjects_.begin(), subjects_.end());
    first_.tasks.ask(first_.ended_session, 99, batch);
    for (int turn = 0; turn < 6; ++turn) turn_all();
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

TEST_F(AwaitedVerdictTest, tries_each_kept_batch_once_for_verdicts) {
  first_.asked.has_hold = true;
  for (uint64_t id = 0; id < 10; ++id) ask(first_.ended_session, id, subject_of(0));
  first_.tasks.retry_kept();
  EXPECT_EQ(first_.asked.retried, 0);
  second_.asked.has_hold = true;
  end_hold_at_first();
  EXPECT_TRUE(first_.tasks.has_work());
  first_.asked.has_hold = true;  // another one
  first_.tasks.retry_kept();
  EXPECT_EQ(first_.asked.retried, 10);
  EXPECT_FALSE(first_.tasks.has_work());
  first_.tasks.retry_kept();
  EXPECT_EQ(first_.asked.retried, 10);
}

TEST_F(AwaitedVerdictTest, tries_so_many_calls_in_a_step_in_the_order_in_which_they_came) {
  first_.asked.has_hold = true;
  for (uint64_t id = 0; id < 5; ++id) {
    const std::vector<std::string> subjects(1'000, subject_of(0));
    first_.tasks.ask(first_.ended_session, id, batch_of(subjects));
  }
  end_hold_at_first();
  first_.tasks.retry_kept();
  for (uint64_t id = 0; id < 5; ++id) EXPECT_EQ(first_.awaits(id), id >= 3) << id;
  EXPECT_TRUE(first_.tasks.has_work());
  ask(first_.ended_session, 9, subject_of(0));
  first_.tasks.retry_kept();
  EXPECT_FALSE(first_.tasks.keeps_any());
  EXPECT_FALSE(first_.tasks.has_work());
}

// ------------------------------------------------------------------------- with real quotas

quota::Options store_options(api::ShardId shard) {
  return {.shard = shard,
          .shards = 3,
          .subjects_max = 20,
          .reservations_max = 3'000,
          .waiters_max = 5,
          .name_seed = 42,
          .id_seed = 42};
}

class KeptBatchesTest : public testing::Test {
 protected:
  KeptBatchesTest() {
    for (TaskSide* side : sides_) {
      const std::string name = name_on(side->mailboxes.shard());
      names_.push_back(name);
      put(*side, name,
          {.name = "slots",
           .metric = api::Metric::concurrency,
           .kind = api::LimitKind::concurrency,
           .ceiling = side == &third_ ? api::Ceiling::block : api::Ceiling::number,
           .amount = 1,
           .time_zone = {}});
    }
  }

  static void put(TaskSide& side, const std::string& name, const api::Limit& limit) {
    api::QuotaBatch& batch = side.tasks.take_batch();
    batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
    batch.subjects = {name};
    batch.new_quotas = {{.limits = {limit}, .profile = {}}};
    side.tasks.ask(side.ended_session, 1, batch);
  }

  std::string name_on(uint32_t shard, const std::string& prefix = "s") {
    std::string name;
    for (int number = 0; name.empty() || first_.mailboxes.shard_of(name) != shard; ++number) {
      name = prefix + std::to_string(number);
    }
    return name;
  }
  void turn_all() {
    for (TaskSide* side : sides_) {
      side->turn();
      side->tasks.make_own_calls();
    }
  }
  void reserve(const session::Session& session, uint64_t id, const std::vector<std::string>& names,
               size_t calls_count = 1) {
    api::QuotaBatch& batch = first_.tasks.take_batch();
    batch.subjects.assign(names.begin(), names.end());
    batch.calls.assign(calls_count, {.op = QuotaOp::reserve,
                                     .given_bits = 0xFF,
                                     .subjects_count = static_cast<uint8_t>(names.size())});
    first_.tasks.ask(session, id, batch);
  }
  // The first shard holds its slot until the third one refuses the call.
  void hold_the_first() { reserve(first_.other_session, 50, {names_[0], names_[2]}); }

  WorkerGroup worker_group_{{.shards = 3}};
  TaskSide first_{worker_group_, 0, store_options(0)};
  TaskSide second_{worker_group_, 1, store_options(1)};
  TaskSide third_{worker_group_, 2, store_options(2)};
  std::vector<TaskSide*> sides_{&first_, &second_, &third_};
  std::vector<std::string> names_;
};

TEST_F(KeptBatchesTest, later_batches_of_other_subjects_pass) {
  hold_the_first();
  reserve(first_.ended_session, 7, {names_[0]});
  ASSERT_TRUE(first_.awaits(7));
  reserve(first_.ended_session, 8, {name_on(0, "other")});
  EXPECT_FALSE(first_.awaits(8));
  reserve(first_.ended_session, 9, {names_[0]});
  EXPECT_TRUE(first_.awaits(9));
  for (int turn = 0; turn < 10; ++turn) turn_all();
  for (const uint64_t id : {7, 9, 50}) EXPECT_FALSE(first_.awaits(id)) << id;
  EXPECT_FALSE(first_.tasks.keeps_any());
}

// Its connection ends meanwhile, as that of every batch here.
TEST_F(KeptBatchesTest, of_ended_connections_leave_nothing_behind) {
  for (const bool drains : {false, true}) {
    hold_the_first();
    reserve(first_.ended_session, 7, {names_[0]});
    ASSERT_TRUE(first_.tasks.keeps_any());
    first_.context.draining = drains;
    for (int turn = 0; turn < 10; ++turn) {
      turn_all();
      for (const uint64_t id : std::exchange(first_.backend.cancelled, {})) {
        first_.tasks.cancel_undelivered(id);
      }
    }
    EXPECT_EQ(first_.store->reservations_count(), 0U);
    EXPECT_FALSE(first_.store->has_claims());
    EXPECT_EQ(first_.slots.used_count(), 0U);
  }
}

// Each second call does not fit beside the one before it: each round decides two.
TEST_F(KeptBatchesTest, many_rounds_on_one_shard_are_done_in_steps) {
  const std::string subject = name_on(0, "tokens");
  put(first_, subject,
      {.name = "tpm",
       .metric = api::Metric::tokens,
       .amount = 10'000,
       .period_ms = 60'000,
       .time_zone = {}});
  api::QuotaBatch& batch = first_.tasks.take_batch();
  batch.subjects = {subject, names_[1]};
  constexpr uint64_t calls_count = 1'000;
  for (uint64_t at = 0; at < calls_count; ++at) {
    const uint64_t tokens = at % 2 == 0 ? 1 : 10'000;
    batch.calls.push_back({.op = QuotaOp::consume,
                           .given_bits = 0xFF,
                           .subjects_count = static_cast<uint8_t>(at == 0 ? 2 : 1),
                           .amounts = {.requests = 0, .input_tokens = tokens}});
  }
  first_.tasks.ask(first_.ended_session, 7, batch);
  int turns = 0;
  for (; turns < 100 && first_.awaits(7); ++turns) turn_all();
  // About 32 calls in each of 500 rounds, 2,048 in a step; two steps in a turn at most.
  EXPECT_GE(turns, 4);
  EXPECT_LE(turns, 16);
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
