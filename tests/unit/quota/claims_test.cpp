// Goal:   a call that awaits a verdict is passed by no later one that takes what it asks for, on
//         any shard, however often it has to be asked for; and passes no earlier one itself.
// Method: stores and the steps of their batches by hand; and the claims of made-up calls, checked
//         against limits that just have room for some of them.
#include "quota/claims.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "unit/quota/spread_fixture.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;

class ClaimsTest : public ContendedFixture {};

TEST_F(ClaimsTest, a_later_call_leaves_what_an_earlier_one_awaits) {
  const Task holder = refused_holder(60);
  const Task first = reserving({names_[0]}, 60);
  step(*first);
  finish(*holder);
  const Task second = reserving({names_[0]}, 60);
  step(*second);
  EXPECT_TRUE(second->batch.awaits_verdict);
  step(*first);
  EXPECT_EQ(code_of(first), QuotaCode::ok);
  EXPECT_TRUE(first->batch.ended_claims);
  step(*second);
  EXPECT_EQ(code_of(second), QuotaCode::tpm_exceeded);
  EXPECT_FALSE(stores_[0].has_claims());
}

TEST_F(ClaimsTest, a_later_call_that_fits_beside_it_is_decided) {
  const Task holder = refused_holder(60);
  const Task first = reserving({names_[0]}, 60);
  step(*first);
  finish(*holder);
  for (const bool is_spread : {false, true}) {
    const Task second = reserving(is_spread ? names_ : Names{names_[0]}, is_spread ? 1 : 39);
    finish(*second);
    EXPECT_EQ(code_of(second), QuotaCode::ok);
  }
  step(*first);
  EXPECT_EQ(code_of(first), QuotaCode::ok);
}

TEST_F(ClaimsTest, a_later_call_that_does_not_fit_is_refused_at_once) {
  reserve({names_[0]}, 10);
  const Task holder = refused_holder(60);
  const Task first = reserving({names_[0]}, 60);
  step(*first);
  EXPECT_EQ(reserve({names_[0]}, 95).code, QuotaCode::tpm_exceeded);
  finish(*holder);
  finish(*first);
}

TEST_F(ClaimsTest, an_earlier_call_does_not_count_it) {
  const Task earlier = reserving({names_[0]}, 60);  // has come, and is still to be decided
  const Task holder = refused_holder(60);
  const Task first = reserving({names_[0]}, 60);
  step(*first);
  finish(*holder);
  step(*earlier);
  EXPECT_EQ(code_of(earlier), QuotaCode::ok);
  step(*first);
  EXPECT_EQ(code_of(first), QuotaCode::tpm_exceeded);
}

// Whenever the first one is asked for, a call that has come since then would hold what it awaits.
TEST_F(ClaimsTest, calls_that_keep_coming_do_not_starve_it) {
  for (const Names& names : {Names{names_[0]}, Names{names_[1], names_[0]}}) {
    std::vector<Task> others;
    others.push_back(refused_holder(60));
    const Task first = reserving(names, 60);
    step(*first);
    for (int round = 0; round < 20 && !first->is_decided; ++round) {
      for (const Task& other : others) step_on(*other);
      others.push_back(refused_holder(60));
      step_on(*first);
    }
    EXPECT_TRUE(first->is_decided);
    EXPECT_EQ(code_of(first), QuotaCode::ok);
    for (const Task& task : others) finish(*task);
    advance_ms(60'000);
  }
}

// It goes on to the first shard with nothing held; its claims stay where it was asked for.
TEST_F(ClaimsTest, stay_while_a_call_over_several_shards_is_asked_for_again) {
  const Task holder = reserving({names_[1], names_[2]}, 60);
  step(*holder);
  const Task first = reserving({names_[0], names_[1]}, 60);
  while (!first->batch.awaits_verdict) step(*first);
  finish(*holder);
  step(*first);
  ASSERT_EQ(first->stop, 0U);
  std::vector<Task> later;
  for (const uint32_t shard : {0U, 1U}) {
    step(*later.emplace_back(reserving({names_[shard], names_[2]}, 60)));
    EXPECT_TRUE(later.back()->batch.spread[0].awaits_others) << shard;
    step(*later.emplace_back(reserving({names_[shard]}, 60)));
    EXPECT_TRUE(later.back()->batch.awaits_verdict) << shard;
  }
  finish(*first);
  EXPECT_EQ(code_of(first), QuotaCode::ok);
  for (const Task& task : later) finish(*task);
  for (uint32_t shard = 0; shard < 3; ++shard) EXPECT_FALSE(stores_[shard].has_claims()) << shard;
}

// Each has a claim where the other one wants to go on.
TEST_F(ClaimsTest, two_calls_with_claims_do_not_wait_for_each_other) {
  std::vector<Task> holders;
  for (const uint32_t shard : {0U, 1U}) {
    step(*holders.emplace_back(reserving({names_[shard], names_[2]}, 60)));
  }
  const Task first = reserving({names_[0], names_[1]}, 60);
  const Task second = reserving({names_[1], names_[0]}, 60);
  step_on(*first);
  step_on(*second);
  for (const Task& task : holders) finish(*task);
  for (int round = 0; round < 20; ++round) {
    step_on(*second);
    step_on(*first);
  }
  EXPECT_TRUE(first->is_decided && second->is_decided);
  EXPECT_EQ(code_of(first), QuotaCode::ok);
  EXPECT_EQ(code_of(second), QuotaCode::tpm_exceeded);
}

// ---------------------------------------------------------------------------------- added up

// Of made-up calls of one subject, whose limit has room for 100 tokens.
class AddedClaimsTest : public testing::Test {
 protected:
  AddedClaimsTest() : subject_(driver_.make("s", {tpm(100), slots(50)})) {}
  ~AddedClaimsTest() override { claims_.check_invariants(); }

  static api::QuotaBatch call(uint64_t number, uint64_t asker = api::no_asker) {
    api::QuotaBatch batch;
    batch.arrival = {.ns = 1, .number = number};
    batch.asker = asker;
    return batch;
  }
  void add(uint64_t number, uint64_t tokens, uint64_t asker = api::no_asker) {
    const std::vector<SubjectIndex> subjects{no_subject, subject_, subject_of_shard(3)};
    claims_.add(call(number, asker), 0, subjects, {.requests = 1, .input_tokens = tokens});
  }
  bool remove(uint64_t number) { return claims_.remove(call(number), 0); }
  bool has_room(uint64_t number, uint64_t tokens) {
    LimitedSubjects limited;
    driver_.subjects.read_limited_subject(subject_, limited.emplace_back());
    const limiter::Shares shares(api::Amounts{.requests = 1, .input_tokens = tokens});
    return claims_.leave_room(call(number), 0, limited, shares, driver_.clock.moment());
  }

  TableDriver driver_{
      {.subjects_max = 8, .reservations_max = 4, .waiters_max = 2, .name_seed = 42, .id_seed = 42}};
  Claims claims_{driver_.reservations};
  const SubjectIndex subject_;
};

TEST_F(AddedClaimsTest, earlier_ones_count_together_and_later_ones_do_not) {
  add(1, 30);
  add(2, 30);
  add(5, 40);
  EXPECT_TRUE(has_room(0, 100));
  EXPECT_TRUE(has_room(3, 40));
  EXPECT_FALSE(has_room(3, 41));
  EXPECT_FALSE(has_room(6, 1));
  EXPECT_TRUE(has_room(6, 0));
  EXPECT_TRUE(remove(2));
  EXPECT_TRUE(has_room(6, 30));
}

TEST_F(AddedClaimsTest, a_call_behind_many_waits_unless_it_fits_beside_all) {
  for (uint64_t number = 1; number <= 16; ++number) add(number, 1);
  add(50, 60);
  EXPECT_TRUE(has_room(40, 84));
  add(17, 1);
  EXPECT_FALSE(has_room(40, 83));
  EXPECT_TRUE(has_room(40, 23));
}

TEST_F(AddedClaimsTest, each_may_take_a_slot) {
  for (uint64_t number = 1; number <= 49; ++number) add(number, 0);
  EXPECT_TRUE(has_room(60, 0));
  add(50, 0);
  EXPECT_FALSE(has_room(60, 0));
}

TEST_F(AddedClaimsTest, each_may_take_a_place_for_a_reservation) {
  for (const uint64_t number : {1, 2, 3}) add(number, 0);
  EXPECT_TRUE(claims_.leave_place(call(9), 0));
  add(4, 0);
  EXPECT_FALSE(claims_.leave_place(call(9), 0));
  EXPECT_TRUE(claims_.leave_place(call(4), 0));
}

TEST_F(AddedClaimsTest, a_connection_is_behind_its_own_and_a_worker_behind_its_batch) {
  const std::vector<SubjectIndex> subjects{subject_};
  add(3, 0, 7);
  EXPECT_TRUE(claims_.has_earlier_of_asker(call(9, 7), 0, subjects));
  EXPECT_FALSE(claims_.has_earlier_of_asker(call(2, 7), 0, subjects));
  EXPECT_FALSE(claims_.has_earlier_of_asker(call(9, 8), 0, subjects));
  EXPECT_FALSE(claims_.has_earlier_of_asker(call(9, 7), 0, std::vector{no_subject}));
  add(4, 0);
  EXPECT_FALSE(claims_.has_earlier_of_asker(call(5), 0, subjects));
  EXPECT_TRUE(claims_.has_earlier_of_asker(call(4), 1, subjects));
}

TEST_F(AddedClaimsTest, a_subject_stays_as_long_as_they_do) {
  add(1, 5);
  EXPECT_EQ(driver_.subjects[subject_].held, 1U);
  EXPECT_TRUE(remove(1));
  EXPECT_EQ(driver_.subjects[subject_].held, 0U);
  EXPECT_FALSE(remove(1));
  EXPECT_FALSE(claims_.has_any());
}

}  // namespace
}  // namespace sluice::quota
