// Goal:   fetching ahead changes nothing: a batch is decided as its calls would be alone.
// Method: the same calls at random to two stores, one by one and in batches of up to nine groups;
//         few subjects, and more than a store keeps: some are forgotten after they were fetched.
#include "quota/call_group.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Metric;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaOp;

// Both stores find the same room, though one sweeps more often: a store that makes room checks this
// many subjects (SubjectTable::eviction_scan), which is all.
constexpr uint32_t kept_max = 1'024;

class TwoStores {
 public:
  explicit TwoStores(uint32_t names) : names_(names) {
    const api::Quota quota =
        quota_of({limit_of("s", Metric::tokens, 300, api::LimitKind::sliding, 1'000),
                  limit_of("f", Metric::requests, 20, api::LimitKind::fixed, 500), slots(4)});
    for (StoreDriver* const driver : {&alone_, &together_}) {
      driver->store.adopt(books_.emplace_back(policy::QuotaRules{
                              .rules = {{.subject = "^\\{", .is_regex = true, .quota = quota}},
                              .unknown_quota = {}}),
                          driver->now());
    }
  }

  // Each call alone, then all of them as one batch.
  void run(size_t calls) {
    for (StoreDriver* const driver : {&alone_, &together_}) driver->advance_ms(20);
    api::QuotaBatch& batch = together_.batch;
    batch.clear();
    names_of_batch_.clear();
    std::vector<QuotaAnswer> expected;
    for (size_t index = 0; index < calls; ++index) {
      const auto [call, name] = some_call();
      expected.push_back(alone_.ask(call, name.empty() ? Names{} : Names{name}));
      batch.calls.push_back(call);
      batch.calls.back().first_subject = static_cast<uint32_t>(batch.subjects.size());
      batch.calls.back().subjects_count = name.empty() ? 0 : 1;
      if (!name.empty()) batch.subjects.push_back(names_of_batch_.emplace_back(name));
    }
    batch.make_answers();
    together_.store.decide(batch, together_.now());
    together_.store.check_invariants(together_.now());
    for (size_t index = 0; index < calls; ++index) {
      const QuotaAnswer& answer = batch.answers[index];
      ASSERT_EQ(answer.code, expected[index].code) << index;
      ASSERT_EQ(answer.reservation, expected[index].reservation) << index;
      ASSERT_EQ(answer.amounts, expected[index].amounts) << index;
      if (batch.calls[index].op != QuotaOp::reserve || !api::admits(answer.code)) continue;
      open_.push_back(answer.reservation);
    }
  }

  uint32_t subjects() const { return together_.store.subjects_count(); }
  uint64_t forgotten() const { return together_.store.statistics().subjects_forgotten; }

 private:
  std::pair<QuotaCall, std::string> some_call() {
    const uint64_t kind = random_() % 100;
    const std::string name = "{t" + std::to_string(random_() % names_) + "}";
    if (kind < 45 || open_.empty()) return {asking_tokens(random_() % 150), name};
    if (kind < 50) return {{.op = QuotaOp::record, .amounts = {.input_tokens = 3}}, name};
    if (kind < 52) return {{.op = QuotaOp::reset}, name};
    const size_t at = random_() % open_.size();
    const QuotaCall ending{.op = kind < 90 ? QuotaOp::settle : QuotaOp::cancel,
                           .given_bits = api::given::input_tokens,
                           .amounts = {.input_tokens = random_() % 200},
                           .reservation = open_[at]};
    if (kind % 4 != 0) open_.erase(open_.begin() + static_cast<int64_t>(at));  // else: once more
    return {ending, ""};
  }

  static Options options() {
    return {.subjects_max = kept_max,
            .reservations_max = 8'192,
            .waiters_max = 8,
            .name_seed = 7,
            .id_seed = 7};
  }

  uint32_t names_;
  std::mt19937_64 random_{1};
  std::deque<policy::QuotaBook> books_;
  StoreDriver alone_{options()};
  StoreDriver together_{options()};
  std::vector<uint64_t> open_;
  std::deque<std::string> names_of_batch_;
};

TEST(Batch, a_batch_of_any_size_is_decided_call_by_call) {
  TwoStores stores(10);
  for (size_t calls = 0; calls <= 9 * 16 + 1 && !testing::Test::HasFailure(); ++calls) {
    stores.run(calls);
  }
}

TEST(Batch, subjects_may_be_forgotten_after_they_were_fetched) {
  TwoStores stores(4 * kept_max);
  for (int batch = 0; batch < 150 && !testing::Test::HasFailure(); ++batch) stores.run(130);
  EXPECT_GT(stores.subjects(), kept_max / 2);
  EXPECT_GT(stores.forgotten(), 1'000U);
}

// Once there are too many subjects for the cache.
TEST(Batch, counts_a_subject_as_fetched_unless_the_call_before_has_it) {
  StoreDriver driver({.subjects_max = kept_max, .reservations_max = 8'192, .waiters_max = 8});
  Names names;
  for (int number = 0; number < 600; ++number) {
    names.push_back(numbered("t", number));
    driver.ask_unchecked({.op = QuotaOp::put}, {names.back()}, quota_of({slots(100)}));
  }
  const auto fetched_by = [&](const Names& asked) {
    api::QuotaBatch batch;
    for (const std::string& name : asked) {
      batch.calls.push_back({.op = QuotaOp::reserve, .subjects_count = 1, .lifetime_ms = 60'000});
      batch.calls.back().first_subject = static_cast<uint32_t>(batch.subjects.size());
      batch.subjects.push_back(name);
    }
    batch.make_answers();
    driver.store.decide(batch, driver.now());
    return batch.subjects_fetched;
  };
  EXPECT_EQ(fetched_by({names.begin(), names.begin() + 20}), 20U);
  EXPECT_EQ(fetched_by(Names(16, names[0])), 1U);
  EXPECT_EQ(fetched_by({names[0], names[1], names[1], names[0]}), 3U);
}

}  // namespace
}  // namespace sluice::quota
