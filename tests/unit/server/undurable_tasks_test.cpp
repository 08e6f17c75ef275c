// Goal:   calls that change quotas are answered when that is durable, and take no place meanwhile.
// Method: the tasks of one shard without its worker, and a writer that commits when the test says
//         so. tests/unit/server/worker_state_test.cpp has them with workers and clients.
#include "server/undurable_tasks.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/limits.hpp"
#include "unit/server/fake_writer.hpp"
#include "unit/server/task_side.hpp"

namespace sluice::server {
namespace {

using api::QuotaOp;
using Ops = std::vector<QuotaOp>;

constexpr uint32_t parked_bound = 64;

class UndurableAnswers : public testing::Test {
 protected:
  void put(uint64_t id) {
    api::QuotaBatch& batch = side_.tasks.take_batch();
    batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
    batch.subjects = {"s"};
    batch.new_quotas = {{}};
    side_.tasks.ask(side_.ended_session, id, batch);
  }

  FakeWriter writer_;
  CutSchedule schedule_{writer_, {}};
  WorkerGroup worker_group_{{}};
  TaskSide side_{worker_group_, 0,
                 StateOptions{.schedule = &schedule_,
                              .source = nullptr,
                              .machine_time = [] { return state::MachineTime{}; },
                              .cpu_ns = [] { return int64_t{0}; },
                              .parked_tasks_max = parked_bound}};
};

TEST_F(UndurableAnswers, make_room_for_other_calls) {
  put(7);
  EXPECT_TRUE(side_.tasks.has_undurable());
  EXPECT_TRUE(side_.awaits(7));
  EXPECT_EQ(side_.slots.used_count(), 0U);
  EXPECT_TRUE(side_.context.room_made);
  EXPECT_EQ(side_.tasks.durable_due_ns(), limits::durable_wait_ms_max * base::ns_per_ms);
}

TEST_F(UndurableAnswers, are_refused_beyond_the_bound) {
  for (uint64_t id = 0; id < parked_bound; ++id) put(id);
  EXPECT_EQ(side_.asked.last_flags & api::quota_flag::not_durable, 0);
  put(parked_bound);
  EXPECT_NE(side_.asked.last_flags & api::quota_flag::not_durable, 0);
  writer_.commit(1);
  side_.tasks.answer_durable();
  EXPECT_FALSE(side_.tasks.has_undurable());
  EXPECT_EQ(side_.tasks.durable_due_ns(), base::never_ns);
}

TEST_F(UndurableAnswers, end_with_their_session) {
  put(7);
  side_.tasks.answer_durable();
  EXPECT_FALSE(side_.awaits(7));
  EXPECT_FALSE(side_.tasks.has_undurable());
}

TEST_F(UndurableAnswers, are_none_when_the_change_is_durable_already) {
  writer_.commit(1);
  put(7);
  EXPECT_FALSE(side_.tasks.has_undurable());
}

TEST_F(UndurableAnswers, the_own_calls_of_a_worker_never_are) {
  side_.tasks.cancel_undelivered(FakeQuotas::reservation(0, 1));
  side_.tasks.end_binding(42);
  side_.tasks.make_own_calls();
  EXPECT_EQ(side_.asked.calls, (Ops{QuotaOp::cancel, QuotaOp::end_binding}));
  EXPECT_FALSE(side_.tasks.has_undurable());
  EXPECT_FALSE(schedule_.is_wanted());
}

}  // namespace
}  // namespace sluice::server
