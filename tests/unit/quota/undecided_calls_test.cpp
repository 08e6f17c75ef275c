// Goal:   calls of one connection that share a subject keep their order, others go on; and a call
//         of one shard that awaits a verdict is decided before later ones that it would not fit
//         beside.
// Method: a hold that another shard will drop, and batches of one shard, step by step.
#include "quota/undecided_calls.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unit/quota/spread_fixture.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;

// ------------------------------------------------------------------------------ of one connection

class SameConnectionTest : public ContendedFixture {
 protected:
  SameConnectionTest() {
    reserved_ = reserve({names_[0]}, 1).reservation;
    holder_ = refused_holder(60);
    first_ = of_connection(QuotaOp::reserve, {names_[0]}, 60);
    step(*first_);
  }

  Task of_connection(QuotaOp op, const Names& names, uint64_t tokens) {
    Task task = start(op, {names}, asking_tokens(tokens));
    task->batch.asker = 7;
    return task;
  }
  Task ending(uint64_t asker) {
    auto task = std::make_unique<StoreTask>();
    task->batch.calls = {{.op = QuotaOp::settle, .reservation = reserved_}};
    task->batch.asker = asker;
    stores_.start(*task);
    return task;
  }
  void end_hold() {
    finish(*holder_);
    step(*first_);
  }
  std::string other_name() {
    std::string name;
    for (int number = 0; name.empty() || stores_.shard_of(name) != 0; ++number) {
      name = numbered("other", number);
    }
    return name;
  }

  uint64_t reserved_ = 0;
  Task holder_;
  Task first_;
};

TEST_F(SameConnectionTest, calls_that_share_a_subject_keep_their_order) {
  std::vector<Task> later;
  for (const QuotaOp op : {QuotaOp::reserve, QuotaOp::consume, QuotaOp::check, QuotaOp::record,
                           QuotaOp::usage, QuotaOp::reset}) {
    step(*later.emplace_back(of_connection(op, {names_[0]}, 1)));
  }
  step(*later.emplace_back(ending(7)));
  for (const Task& task : later) EXPECT_TRUE(task->batch.awaits_verdict);
  end_hold();
  for (const Task& task : later) {
    step(*task);
    EXPECT_EQ(code_of(task), QuotaCode::ok);
  }
  EXPECT_FALSE(stores_[0].has_claims());
}

TEST_F(SameConnectionTest, a_call_over_several_shards_keeps_its_order_too) {
  const Task later = of_connection(QuotaOp::reserve, names_, 1);
  step(*later);
  EXPECT_TRUE(later->batch.spread[0].awaits_others);
  end_hold();
  finish(*later);
  EXPECT_EQ(code_of(later), QuotaCode::ok);
}

TEST_F(SameConnectionTest, later_batches_of_other_subjects_pass) {
  for (const QuotaOp op : {QuotaOp::reserve, QuotaOp::check, QuotaOp::record, QuotaOp::usage}) {
    const Task later = of_connection(op, {other_name()}, 1);
    step(*later);
    EXPECT_TRUE(later->is_decided);
  }
  end_hold();
}

TEST_F(SameConnectionTest, batches_of_other_connections_pass) {
  const Task settle = ending(8);
  step(*settle);
  EXPECT_EQ(code_of(settle), QuotaCode::ok);
  finish(*holder_);
  EXPECT_EQ(ask(QuotaOp::check, {names_[0]}, asking_tokens(1)).code, QuotaCode::ok);
  step(*first_);
  EXPECT_EQ(code_of(first_), QuotaCode::ok);
}

// ------------------------------------------------------------------------- places of reservations

class LastPlaceTest : public ContendedFixture {
 protected:
  LastPlaceTest() : ContendedFixture(2) {}
};

TEST_F(LastPlaceTest, a_later_call_leaves_the_place_that_an_earlier_one_awaits) {
  reserve({name_on(0)}, 1);
  const Task holder = refused_holder(2);  // has the other place
  const Task first = reserving({names_[0]}, 1);
  step(*first);
  EXPECT_TRUE(first->batch.awaits_verdict);
  finish(*holder);
  const Task second = reserving({names_[0]}, 1);
  step(*second);
  EXPECT_TRUE(second->batch.awaits_verdict);
  step(*first);
  EXPECT_EQ(code_of(first), QuotaCode::ok);
  step(*second);
  EXPECT_EQ(code_of(second), QuotaCode::reservations_full);
}

}  // namespace
}  // namespace sluice::quota
