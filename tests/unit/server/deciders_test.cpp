// Goal: the shipped deciders decide for their shard of the worker group, and a worker uses only the
//       deciders that it was given.
// Method: makes them for the last shard of three; a worker over the simulated kernel gets a store
//       of quotas that only counts calls.
#include "server/deciders.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "io/sim/sim_io.hpp"
#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "server/worker.hpp"
#include "tests/unit/server/fake_quotas.hpp"
#include "tests/unit/server/fake_writer.hpp"

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

TEST(Deciders, reservation_ids_name_the_node_of_the_list) {
  WorkerOptions options{.shard = {.keys_max = 100}, .quota = {.subjects_max = 10}};
  EXPECT_EQ(store_options(options).node_slot, proto::reservation_id::no_slot);
  options.fleet.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                             {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
  options.fleet.own_node = 1;
  EXPECT_EQ(store_options(options).node_slot, 2);
}

// What an earlier start has left, or why it cannot be read.
class FakeSource final : public StateSource {
 public:
  explicit FakeSource(quota::Restored restored) : restored_(std::move(restored)) {}
  quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const override {
    into = &quotas;
    at = now;
    return restored_;
  }
  RestoredWindows restore(shard::KeyDecider& /*keys*/, const OwnKeys& /*own*/,
                          base::Now /*now*/) const override {
    return {};
  }
  mutable quota::QuotaDecider* into = nullptr;
  mutable base::Now at;

 private:
  const quota::Restored restored_;
};

TEST(Deciders, restores_what_an_earlier_start_has_left) {
  const FakeSource source({.damage = {}, .subjects = 3});
  FakeQuotas::Asked asked;
  FakeQuotas quotas(asked, 0);
  WorkerOptions options;
  EXPECT_EQ(restore(options, quotas, {}).subjects, 0U) << "there is nothing";
  options.state.source = &source;
  EXPECT_EQ(restore(options, quotas, {.monotonic_ns = 7, .wall_ns = 8}).subjects, 3U);
  EXPECT_EQ(source.into, &quotas);
  EXPECT_EQ(source.at.monotonic_ns, 7);
}

TEST(Deciders, throws_what_is_wrong_with_the_state) {
  const FakeSource source({.damage = "a subject twice", .subjects = 3});
  FakeQuotas::Asked asked;
  FakeQuotas quotas(asked, 0);
  WorkerOptions options;
  options.state.source = &source;
  try {
    restore(options, quotas, {});
    FAIL() << "it goes on";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "a subject twice");
  }
}

TEST(Deciders, the_store_keeps_a_state_where_there_is_a_schedule_of_cuts) {
  WorkerOptions options;
  options.sessions.shard = 2;
  options.sessions.shards = 3;
  options.sessions.routing_seed = 42;
  options.quota.name_seed = 43;
  EXPECT_FALSE(store_options(options).keeps_state);
  FakeWriter writer;
  CutSchedule schedule(writer, {});
  options.state.schedule = &schedule;
  const quota::Options store = store_options(options);
  EXPECT_TRUE(store.keeps_state);
  EXPECT_EQ(store.shard, 2U);
  EXPECT_EQ(store.shards, 3U);
  EXPECT_EQ(store.routing_seed, 42U);
  EXPECT_EQ(store.name_seed, 43U);
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
