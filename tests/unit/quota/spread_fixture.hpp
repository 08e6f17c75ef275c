// Two or three stores of quotas, and the steps of their batches by hand.
// Shape:  one subject on each of three shards, names_[shard].
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "unit/quota/sharded_stores.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {

class SpreadFixture : public testing::Test {
 protected:
  static constexpr uint32_t node_part_slack_ms = 7'000;

  explicit SpreadFixture(uint32_t reservations_max = 5)
      : stores_(3, Options{.subjects_max = 20,
                           .reservations_max = reservations_max,
                           .waiters_max = 5,
                           .name_seed = 42,
                           .id_seed = 42,
                           .keeps_state = true,
                           .node_part_slack_ms = node_part_slack_ms}) {
    for (uint32_t shard = 0; shard < stores_.count(); ++shard) names_.push_back(name_on(shard));
  }
  ~SpreadFixture() override { stores_.check_invariants(now()); }

  std::string name_on(uint32_t shard) const {
    std::string name;
    for (int number = 0; name.empty() || stores_.shard_of(name) != shard; ++number) {
      name = numbered("s", number);
    }
    return name;
  }

  base::Now now() const { return {.monotonic_ns = ns_, .wall_ns = ns_}; }
  void advance_ms(int64_t by) {
    ns_ += by * base::ns_per_ms;
    stores_.run_due(now());
  }

  // A batch of calls with these terms, one for each list of subjects.
  using Task = std::unique_ptr<StoreTask>;
  Task start(api::QuotaOp op, const std::vector<Names>& subjects, api::QuotaCall call) {
    auto task = std::make_unique<StoreTask>();
    call.op = op;
    for (const Names& names : subjects) {
      call.first_subject = static_cast<uint32_t>(task->batch.subjects.size());
      call.subjects_count = static_cast<uint8_t>(names.size());
      task->batch.calls.push_back(call);
      for (const std::string& name : names)
        task->batch.subjects.push_back(texts_.emplace_back(name));
    }
    stores_.start(*task);
    return task;
  }
  void step(StoreTask& task, int times = 1) {
    for (; times > 0 && !task.is_decided; --times) stores_.step(task, now());
  }
  void finish(StoreTask& task) {
    for (int steps = 0; steps < 10'000 && !task.is_decided; ++steps) step(task);
    EXPECT_TRUE(task.is_decided) << "it awaits a verdict for ever";
  }
  api::QuotaAnswer ask(api::QuotaOp op, const Names& subjects, const api::QuotaCall& call) {
    const Task task = start(op, {subjects}, call);
    finish(*task);
    limits_ = task->batch.limits;
    return task->batch.answers[0];
  }
  api::QuotaAnswer reserve(const Names& subjects, uint64_t tokens) {
    return ask(api::QuotaOp::reserve, subjects, asking_tokens(tokens));
  }
  api::QuotaAnswer end(api::QuotaOp op, uint64_t reservation, uint64_t tokens = 0) {
    StoreTask task;
    task.batch.calls = {{.op = op,
                         .given_bits = api::given::input_tokens,
                         .amounts = {.input_tokens = tokens},
                         .reservation = reservation}};
    stores_.decide(task, now());
    return task.batch.answers[0];
  }
  void put(const std::string& name, std::vector<api::Limit> limits) {
    put(name, quota_of(std::move(limits)));
  }
  void put(const std::string& name, const api::Quota& quota) {
    StoreTask task;
    task.batch.calls = {{.op = api::QuotaOp::put, .subjects_count = 1}};
    task.batch.subjects = {name};
    task.batch.new_quotas = {quota};
    stores_.decide(task, now());
  }

  // Rules for calls that give no output tokens.
  void adopt(uint32_t shard, uint64_t output_tokens) {
    stores_[shard].adopt(books_.emplace_back(policy::QuotaRules{.unknown_quota = {},
                                                                .output_tokens = output_tokens}),
                         now());
  }

  struct Usage {
    uint64_t used, reserved;
    int64_t reset_ms;
    uint32_t open;
    bool operator==(const Usage&) const = default;
  };
  Usage usage(const std::string& name) {
    StoreTask task;
    task.batch.calls = {{.op = api::QuotaOp::usage, .subjects_count = 1}};
    task.batch.subjects = {name};
    stores_.decide(task, now());
    const api::LimitReport& limit = task.batch.limits[0];
    return {limit.used, limit.reserved, limit.reset_ms, task.batch.rows[0].open_reservations};
  }

  std::deque<policy::QuotaBook> books_;
  ShardedStores stores_;
  Names names_;                           // one on each shard
  std::vector<api::LimitReport> limits_;  // of the last answer

 private:
  std::deque<std::string> texts_;
  int64_t ns_ = 1'000 * base::ns_per_s;
};

// Two shards have room for 100 tokens a minute, the third for none.
class ContendedFixture : public SpreadFixture {
 protected:
  explicit ContendedFixture(uint32_t reservations_max = 50) : SpreadFixture(reservations_max) {
    put(names_[0], {tpm(100)});
    put(names_[1], {tpm(100)});
    put(names_[2], {tpm(1)});
  }

  Task reserving(const Names& names, uint64_t tokens) {
    return start(api::QuotaOp::reserve, {names}, asking_tokens(tokens));
  }
  // Holds so much of the first shard, and is refused by the second.
  Task refused_holder(uint64_t tokens) {
    Task task = reserving({names_[0], names_[2]}, tokens);
    step(*task);
    return task;
  }
  // As far as it goes without a verdict.
  void step_on(StoreTask& task) {
    do {
      step(task);
    } while (!task.is_decided && !task.batch.awaits_verdict);
  }
  static api::QuotaCode code_of(const Task& task) { return task->batch.answers[0].code; }
};

}  // namespace sluice::quota
