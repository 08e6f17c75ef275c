// Goal:   as many calls pass the head of a queue as its quota allows, whatever shards have their
//         other subjects, whichever is their home, and whether they have waited themselves.
// Method: three stores, one subject on each; heads that wait for more than the small calls that
//         pass them.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "unit/quota/spread_fixture.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;

class SpreadOvertakingTest : public SpreadFixture {
 protected:
  SpreadOvertakingTest() : SpreadFixture(50) {}

  void put_passing(const std::string& name, uint32_t overtakers_max) {
    api::Quota quota = quota_of({tpm(100)});
    quota.overtakers_max = overtakers_max;
    put(name, quota);
  }
  void use(const std::string& name, uint64_t tokens) {
    EXPECT_EQ(ask(QuotaOp::record, {name}, asking_tokens(tokens)).code, QuotaCode::ok);
  }
  void wait(api::Ticket ticket, const Names& names, uint64_t tokens) {
    EXPECT_EQ(ask(QuotaOp::reserve, names, waiting(asking_tokens(tokens), ticket)).code,
              QuotaCode::queued);
  }
  QuotaCode ask_small(const Names& names) { return reserve(names, 1).code; }

  std::vector<api::Ticket> served() {
    stores_.finish_own(now());
    std::vector<api::Ticket> tickets;
    for (uint32_t shard = 0; shard < stores_.count(); ++shard) {
      for (const api::Grant& grant : stores_[shard].grants()) {
        EXPECT_EQ(grant.code, QuotaCode::ok);
        tickets.push_back(grant.ticket);
      }
      stores_[shard].keep_grants(0);
    }
    return tickets;
  }
};

TEST_F(SpreadOvertakingTest, newcomers_of_several_shards_pass_a_head_as_often_as_it_allows) {
  const std::vector<Names> ways{{names_[0]},
                                {names_[0], names_[1]},
                                {names_[1], names_[0]},
                                {names_[2], names_[0], names_[1]}};
  for (const Names& first : ways) {
    for (const Names& second : ways) {
      for (const std::string& name : names_) put_passing(name, 2);
      use(names_[0], 50);
      wait(1, {names_[0]}, 80);
      EXPECT_EQ(ask_small(first), QuotaCode::ok);
      EXPECT_EQ(ask_small(second), QuotaCode::ok);
      for (const Names& third : ways) EXPECT_EQ(ask_small(third), QuotaCode::queue_ahead);
      advance_ms(60'000);
      EXPECT_EQ(served(), std::vector<api::Ticket>{1});
      advance_ms(60'000);
    }
  }
}

TEST_F(SpreadOvertakingTest, the_head_may_be_of_several_shards_itself) {
  put_passing(names_[0], 1);
  put_passing(names_[1], 2);
  put_passing(names_[2], 0);
  use(names_[0], 50);
  wait(1, {names_[1], names_[0]}, 80);
  EXPECT_EQ(ask_small({names_[2], names_[0]}), QuotaCode::ok);
  EXPECT_EQ(ask_small({names_[2], names_[0]}), QuotaCode::queue_ahead);
  EXPECT_EQ(ask_small({names_[2], names_[1]}), QuotaCode::ok);
  EXPECT_EQ(ask_small({names_[1]}), QuotaCode::ok);
  EXPECT_EQ(ask_small({names_[1], names_[2]}), QuotaCode::queue_ahead);
}

TEST_F(SpreadOvertakingTest, a_refused_newcomer_has_passed_nobody) {
  put_passing(names_[0], 1);
  put_passing(names_[1], 1);
  use(names_[0], 50);
  use(names_[1], 100);
  wait(1, {names_[0]}, 80);
  EXPECT_EQ(ask_small({names_[0], names_[1]}), QuotaCode::tpm_exceeded);
  EXPECT_EQ(ask_small({names_[1], names_[0]}), QuotaCode::tpm_exceeded);
  EXPECT_EQ(ask_small({names_[0]}), QuotaCode::ok);
  EXPECT_EQ(ask_small({names_[0]}), QuotaCode::queue_ahead);
}

// Its home counts it after the try, the other shard with the verdict.
TEST_F(SpreadOvertakingTest, a_waiter_that_passes_heads_of_two_shards_counts_once_on_each) {
  for (const std::string& name : names_) put_passing(name, 2);
  const uint64_t both = reserve({names_[0], names_[1]}, 100).reservation;
  wait(1, {names_[0]}, 90);
  wait(2, {names_[1]}, 90);
  wait(3, {names_[0], names_[1]}, 10);
  end(QuotaOp::settle, both, 50);
  EXPECT_EQ(served(), std::vector<api::Ticket>{3});
  for (const std::string& name : {names_[0], names_[1]}) {
    EXPECT_EQ(usage(name).used, 60U);
    EXPECT_EQ(ask_small({name}), QuotaCode::ok) << "one has passed";
    EXPECT_EQ(ask_small({name}), QuotaCode::queue_ahead) << "two have passed";
  }
}

TEST_F(SpreadOvertakingTest, a_waiter_that_has_used_up_what_may_pass_lets_no_other_pass) {
  put_passing(names_[0], 1);
  put_passing(names_[1], 1);
  const uint64_t both = reserve({names_[0], names_[1]}, 100).reservation;
  wait(1, {names_[0]}, 90);
  wait(2, {names_[1]}, 90);
  wait(3, {names_[1], names_[0]}, 10);
  wait(4, {names_[0], names_[1]}, 10);
  end(QuotaOp::settle, both, 50);
  EXPECT_EQ(served(), std::vector<api::Ticket>{3});
  EXPECT_EQ(usage(names_[0]).used, 60U);
  EXPECT_EQ(usage(names_[1]).used, 60U);
}

}  // namespace
}  // namespace sluice::quota
