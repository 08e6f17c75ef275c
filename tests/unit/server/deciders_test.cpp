// Goal: what is shipped decides for its place in the worker group, and a worker asks nothing but
//       the deciders that it was handed.
// Method: makes them for the last shard of three; a worker over the simulated kernel gets a store
// of
//         quotas that only counts what it is asked.
#include "server/deciders.hpp"

#include <gtest/gtest.h>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"

namespace sluice::server {
namespace {

TEST(Deciders, reservations_name_the_shard_that_holds_them) {
  WorkerOptions options{.shard = {.keys_max = 100}, .quota = {.subjects_max = 10}};
  options.sessions.shard = 2;
  options.sessions.shards = 3;
  const Deciders deciders = make_deciders(options);
  policy::RuleBook book(options.shard.policy, {}, {.unknown = policy::UnknownSubjects::allow});
  deciders.quotas->adopt(book.quotas(), {});
  api::QuotaBatch batch;
  batch.subjects = {"m"};
  batch.calls = {{.op = api::QuotaOp::reserve, .subjects_count = 1, .core = 2}};
  batch.make_answers();
  deciders.quotas->decide(batch, {}, 0);
  ASSERT_TRUE(api::admits(batch.answers[0].code));
  EXPECT_EQ(quota::shard_of(batch.answers[0].reservation), 2U);
}

// Quotas that are never due, and count how often they are asked.
class CountedQuotas final : public quota::QuotaDecider {
 public:
  struct Calls {
    int adopted = 0;
    int drained = 0;
    int checked = 0;
  };
  explicit CountedQuotas(Calls& calls) : calls_(calls) {}

  void decide(api::QuotaBatch&, base::Now, api::CoreId) noexcept override {}
  bool withdraw(api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept override {
    return false;
  }
  bool abandon(api::WaiterId, api::Ticket, base::Now, api::CoreId) noexcept override {
    return false;
  }
  bool refund(const api::Permit&, base::Now) noexcept override { return false; }
  void drain(base::Now) noexcept override { ++calls_.drained; }
  void run_due(base::Now) noexcept override {}
  int64_t next_due_ns() const noexcept override { return base::never_ns; }
  std::span<api::Grant> grants() noexcept override { return {}; }
  void keep_grants(size_t count) noexcept override { EXPECT_EQ(count, 0U); }
  void adopt(policy::QuotaBook&, base::Now) noexcept override { ++calls_.adopted; }
  std::string_view unknown_subject() const noexcept override { return {}; }
  uint32_t subjects_count() const noexcept override { return 0; }
  uint32_t reservations_count() const noexcept override { return 0; }
  uint32_t waiters_count() const noexcept override { return 0; }
  const quota::Statistics& statistics() const noexcept override { return statistics_; }
  uint64_t reserved_bytes() const noexcept override { return 0; }
  void check_invariants(base::Now) const noexcept override { ++calls_.checked; }

 private:
  Calls& calls_;
  quota::Statistics statistics_;
};

TEST(Deciders, a_worker_asks_those_that_it_was_handed) {
  io::Random random(1);
  io::SimNetwork network(random, {});
  io::SimIo io({}, network);
  Crew crew{route::MeshOptions{}};
  const WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 10}, .connections_max = 2};
  Deciders deciders = make_deciders(options);
  CountedQuotas::Calls calls;
  deciders.quotas = std::make_unique<CountedQuotas>(calls);
  Worker worker(io, options, crew, std::move(deciders));
  worker.start();
  worker.turn(0);
  worker.adopt(std::make_unique<policy::RuleBook>(options.shard.policy, std::vector<policy::Rule>{},
                                                  policy::QuotaRules{}));
  worker.check_invariants();
  worker.begin_drain();
  EXPECT_EQ(calls.adopted, 1);
  EXPECT_EQ(calls.checked, 1);
  EXPECT_EQ(calls.drained, 1);
}

}  // namespace
}  // namespace sluice::server
