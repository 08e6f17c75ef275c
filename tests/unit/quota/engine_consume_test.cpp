// Goal:   a consume charges what fits and leaves no reservation; it may wait; it, and a record, is
//         charged once under the same id.
// Method: cases by hand with a virtual clock.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "unit/quota/sharded_stores.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;

QuotaAnswer consume(StoreDriver& driver, const Names& names, const QuotaCall& call) {
  return driver.op(QuotaOp::consume, call, names);
}

TEST(Consume, charges_every_limit_and_leaves_nothing_open) {
  StoreDriver driver;
  driver.put("model", {rpm(10), tpm(1'000), slots(1)});
  driver.put("tenant", {tpm(1'000)});
  const QuotaAnswer answer = consume(driver, {"model", "tenant"}, asking_tokens(150));
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.reservation, 0U);
  EXPECT_EQ(driver.used("model", "rpm"), 1U);
  EXPECT_EQ(driver.used("tenant", "tpm"), 150U);
  EXPECT_EQ(driver.limit("model", "tpm").reserved, 0U);
  EXPECT_EQ(driver.used("model", "slots"), 0U);
  EXPECT_EQ(driver.store.reservations_count(), 0U);
  EXPECT_EQ(driver.store.statistics().consumes[static_cast<size_t>(QuotaCode::ok)], 1U);
  EXPECT_EQ(driver.store.statistics().reserves[static_cast<size_t>(QuotaCode::ok)], 0U);
}

TEST(Consume, what_does_not_fit_is_denied_and_charged_nowhere) {
  StoreDriver driver;
  driver.put("model", {rpm(10)});
  driver.put("tenant", {tpm(100)});
  QuotaCall call = asking_tokens(101);
  call.flags = api::quota_flag::wants_violated;
  const QuotaAnswer answer = consume(driver, {"model", "tenant"}, call);
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(driver.violated(), Names{"tenant.tpm"});
  EXPECT_EQ(driver.used("model", "rpm"), 0U);
}

TEST(Consume, output_tokens_that_are_not_given_are_none) {
  StoreDriver driver;
  driver.put("model", {tpm(1'000)});
  consume(driver, {"model"}, {.amounts = {.input_tokens = 40}});
  EXPECT_EQ(driver.used("model", "tpm"), 40U);
}

TEST(Consume, cached_tokens_count_only_where_the_limit_says_so) {
  StoreDriver driver;
  api::Limit all = tpm(100);
  all.name = "all";
  all.count_cached = true;
  driver.put("model", {tpm(100), all});
  QuotaCall call = asking_tokens(60);
  call.cached_input_tokens = 50;
  EXPECT_EQ(consume(driver, {"model"}, call).code, QuotaCode::ok);
  EXPECT_EQ(driver.used("model", "tpm"), 10U);
  EXPECT_EQ(driver.used("model", "all"), 60U);
  EXPECT_FALSE(api::admits(consume(driver, {"model"}, call).code));
}

TEST(Consume, needs_a_free_slot_and_holds_none) {
  StoreDriver driver;
  driver.put("gpu", {slots(1)});
  EXPECT_EQ(consume(driver, {"gpu"}, asking_tokens(0)).code, QuotaCode::ok);
  EXPECT_EQ(consume(driver, {"gpu"}, asking_tokens(0)).code, QuotaCode::ok);
  driver.reserve({"gpu"}, asking_tokens(0));
  EXPECT_EQ(consume(driver, {"gpu"}, asking_tokens(0)).code, QuotaCode::concurrency_exceeded);
}

TEST(Consume, waits_in_its_place_and_is_charged_when_it_is_served) {
  StoreDriver driver;
  driver.put("model", {tpm(100)});
  driver.record({"model"}, {.input_tokens = 90});
  EXPECT_EQ(consume(driver, {"model"}, waiting(asking_tokens(20), 1)).code, QuotaCode::queued);
  EXPECT_EQ(driver.reserve({"model"}, waiting(asking_tokens(5), 2)).code, QuotaCode::queued);
  driver.advance_ms(60'000);
  EXPECT_EQ(driver.served(), (std::vector<api::Ticket>{1, 2}));
  EXPECT_EQ(driver.used("model", "tpm"), 25U);
  EXPECT_EQ(driver.limit("model", "tpm").reserved, 5U);
}

TEST(Consume, is_admitted_while_reservations_fill_every_place) {
  StoreDriver driver({.subjects_max = 10,
                      .reservations_max = 1,
                      .waiters_max = 1,
                      .name_seed = 42,
                      .id_seed = 42});
  driver.put("model", {rpm(10)});
  driver.reserve({"model"}, asking_tokens(0));
  EXPECT_EQ(consume(driver, {"model"}, asking_tokens(0)).code, QuotaCode::ok);
  // Its id would need a place.
  EXPECT_EQ(consume(driver, {"model"}, with_id(asking_tokens(0), "a")).code,
            QuotaCode::reservations_full);
  QuotaCall call = with_id(asking_tokens(0), "a");
  EXPECT_EQ(driver.op(QuotaOp::record, call, {"model"}).code, QuotaCode::reservations_full);
  EXPECT_EQ(driver.used("model", "rpm"), 2U);
}

// A call over several shards takes a place in each of them until its verdict.
TEST(Consume, frees_its_places_on_all_shards) {
  ShardedStores stores(2, {.subjects_max = 10,
                           .reservations_max = 1,
                           .waiters_max = 1,
                           .name_seed = 42,
                           .id_seed = 42});
  std::array<std::string, 2> names;
  for (int number = 0; names[0].empty() || names[1].empty(); ++number) {
    const std::string name = numbered("s", number);
    names[stores.shard_of(name)] = name;
  }
  const base::Now now = StoreDriver{}.now();
  for (const std::string& name : names) {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
    task.batch.subjects = {name};
    task.batch.new_quotas = {quota_of({tpm(1'000)})};
    stores.decide(task, now);
  }
  for (int call = 0; call < 10; ++call) {
    StoreTask task;
    task.batch.calls = {asking_tokens(1)};
    task.batch.calls[0].op = QuotaOp::consume;
    task.batch.calls[0].subjects_count = 2;
    task.batch.subjects = {names[0], names[1]};
    stores.decide(task, now);
    ASSERT_EQ(task.batch.answers[0].code, QuotaCode::ok) << call;
  }
  stores.check_invariants(now);
}

// ------------------------------------------------------------------------------------ repeats

class ChargedOnce : public testing::TestWithParam<QuotaOp> {
 protected:
  QuotaCode ask(uint64_t tokens, QuotaOp op) {
    return driver_.op(op, with_id(asking_tokens(tokens), "job 7"), {"model"}).code;
  }
  QuotaCode ask(uint64_t tokens = 60) { return ask(tokens, GetParam()); }
  uint64_t used() { return driver_.used("model", "tpd"); }

  StoreDriver driver_;
  const api::Quota quota_ = quota_of(
      {limit_of("tpd", api::Metric::tokens, 100, api::LimitKind::anchored_day, 86'400'000)});
};

TEST_P(ChargedOnce, until_the_default_lifetime_ends) {
  driver_.put("model", quota_);
  EXPECT_EQ(ask(), QuotaCode::ok);
  driver_.advance_ms(59'999);
  EXPECT_EQ(ask(), QuotaCode::ok);
  EXPECT_EQ(used(), 60U);
  driver_.advance_ms(1);
  const bool is_record = GetParam() == QuotaOp::record;
  EXPECT_EQ(ask(), is_record ? QuotaCode::ok : QuotaCode::tokens_exceeded);
  EXPECT_EQ(used(), is_record ? 120U : 60U);
}

TEST_P(ChargedOnce, another_request_under_the_id_is_refused) {
  driver_.put("model", quota_);
  EXPECT_EQ(ask(), QuotaCode::ok);
  EXPECT_EQ(ask(59), QuotaCode::id_in_use);
  for (const QuotaOp op : {QuotaOp::reserve, QuotaOp::record, QuotaOp::consume}) {
    EXPECT_EQ(ask(60, op), op == GetParam() ? QuotaCode::ok : QuotaCode::id_in_use);
  }
  EXPECT_EQ(used(), 60U);
}

INSTANTIATE_TEST_SUITE_P(Uses, ChargedOnce, testing::Values(QuotaOp::record, QuotaOp::consume),
                         [](const auto& op) {
                           return op.param == QuotaOp::record ? "record" : "consume";
                         });

}  // namespace
}  // namespace sluice::quota
