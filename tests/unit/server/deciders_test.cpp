// Goal: the shipped deciders decide for their shard of the worker group, and a worker uses only the
//       deciders that it was given.
// Method: makes them for the last shard of three; a worker over the simulated kernel gets a store
//       of quotas that only counts calls.
#include "server/deciders.hpp"

#include <gtest/gtest.h>

#include "io/sim/sim_io.hpp"
#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "server/worker.hpp"
#include "tests/unit/server/fake_quotas.hpp"

namespace sluice::server {
namespace {

TEST(Deciders, reservation_ids_lead_to_the_shard_of_their_subject) {
  WorkerOptions options{.shard = {.keys_max = 100}, .quota = {.subjects_max = 10}};
  options.sessions.shard = 2;
  options.sessions.shards = 3;
  options.sessions.routing_seed = 42;
  const Deciders deciders = make_deciders(options);
  policy::RuleBook book(options.shard.policy, {}, {.unknown = policy::UnknownSubjects::allow});
  deciders.quotas->adopt(book.quotas(), {});
  api::QuotaBatch batch;
  batch.subjects = {"m"};
  batch.calls = {{.op = api::QuotaOp::reserve, .subjects_count = 1, .shard = 2}};
  batch.make_answers();
  deciders.quotas->decide(batch, {}, 0);
  ASSERT_TRUE(api::admits(batch.answers[0].code));
  EXPECT_EQ(proto::reservation_shard(batch.answers[0].reservation, 3),
            proto::owner_shard(proto::routing_hash("m", 42), 3));
}

TEST(Deciders, worker_uses_the_deciders_it_was_given) {
  io::Random random(1);
  io::SimNetwork network(random, {});
  io::SimIo io({}, network);
  WorkerGroup worker_group{route::MeshOptions{}};
  const WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 10}, .connections_max = 2};
  Deciders deciders = make_deciders(options);
  FakeQuotas::Asked asked;
  deciders.quotas = std::make_unique<FakeQuotas>(asked, 0);
  Worker worker(io, options, worker_group, std::move(deciders));
  worker.start();
  worker.turn(0);
  worker.adopt(std::make_unique<policy::RuleBook>(options.shard.policy, std::vector<policy::Rule>{},
                                                  policy::QuotaRules{}));
  worker.check_invariants();
  worker.begin_drain();
  EXPECT_EQ(asked.adopted, 1);
  EXPECT_EQ(asked.checked, 1);
  EXPECT_EQ(asked.drained, 1);
}

}  // namespace
}  // namespace sluice::server
