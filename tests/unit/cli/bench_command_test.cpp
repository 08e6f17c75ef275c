// Goal: `bench` runs its closed loop and reports what really came back. Method: the subcommand
// against a scripted server that decides in a known way.
#include "cli/bench_command.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "proto/key_hash.hpp"
#include "sluicegate/error.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;

// The load tool looks whether the server is there before it connects for the run.
constexpr int connections_count = 2;

std::function<int()> bench(const std::string& flags) {
  CLI::App app;
  std::function<int()> run;
  add_bench_command(app, run);
  app.parse("bench " + flags);
  return run;
}

std::string at(const FakeServer& server, int connections = 1) {
  return "--address 127.0.0.1:" + std::to_string(server.port()) + " --connections " +
         std::to_string(connections) +
         " --window 4 --batch 8 --keys 100 --warm-up-seconds 0 --seconds 0.05 "
         "--json";
}

// Approves every entry of cost 1 and denies the others.
void decide_by_cost(Peer& peer) {
  peer.read();
  peer.write(sluicegate::test::welcome());
  for (;;) {
    const auto frame = peer.read();
    const auto acquire = frame.getAcquire();
    std::vector<uint8_t> verdicts(acquire.getKeySizes().size(), 1);
    for (unsigned i = 0; i < acquire.getCosts().size(); ++i) {
      if (acquire.getCosts()[i] > 1) verdicts[i] = 2;
    }
    peer.write(sluicegate::test::verdicts(frame.getId(), static_cast<unsigned>(verdicts.size()),
                                          verdicts));
  }
}

TEST(BenchCommand, reports_what_came_back) {
  const FakeServer server{decide_by_cost, connections_count};
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench(at(server) + " --denied-share 0.25")(), 0);
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_GT(line["decisions_per_s"], 0);
  EXPECT_GT(line["frames_per_s"], 0);
  EXPECT_NEAR(line["denied_share"], 0.25, 0.01);
  EXPECT_EQ(line["approved"].get<uint64_t>() + line["denied"].get<uint64_t>(), line["decisions"]);
  EXPECT_EQ(line["distinct_keys"], 100);
  EXPECT_GT(line["bytes_in"], 0);
  EXPECT_GT(line["bytes_out"], line["bytes_in"]);
  EXPECT_GT(line["client_cpu_s"], 0);
  EXPECT_TRUE(line["server_cpu_s"].is_null()) << "nobody said which process the server is";
  EXPECT_GE(line["latency_us"]["max"], line["latency_us"]["p50"]);
  EXPECT_TRUE(line["latency_us"].contains("p99") && line["latency_us"].contains("p999"));
}

TEST(BenchCommand, unexpected_verdicts_are_counted_apart) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome());
                            for (;;) {
                              const auto frame = peer.read();
                              const auto count = frame.getAcquire().getKeySizes().size();
                              peer.write(sluicegate::test::verdicts(frame.getId(), count, {4}));
                            }
                          },
                          connections_count};
  testing::internal::CaptureStdout();
  bench(at(server))();
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(line["approved"], 0);
  EXPECT_EQ(line["other_verdicts"]["table_full"], line["decisions"]);
}

TEST(BenchCommand, a_server_that_hangs_up_ends_the_run) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome());
                            peer.read();
                          },
                          connections_count};
  EXPECT_THROW(bench(at(server))(), sluicegate::ConnectionLost);
}

TEST(BenchCommand, an_answer_to_no_question_ends_the_run) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome());
                            peer.read();
                            peer.write(sluicegate::test::verdicts(4'711, 8, {1}));
                            peer.at_end();
                          },
                          connections_count};
  EXPECT_THROW(bench(at(server))(), sluicegate::ProtocolError);
}

TEST(BenchCommand, a_window_beyond_welcome_is_refused) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome(3));
                            peer.at_end();
                          },
                          connections_count};
  EXPECT_THROW(bench(at(server))(), sluicegate::LimitExceeded);
}

// A server of two shards that decides for its own keys; a key of the other one it denies.
constexpr uint64_t routing_seed = 4'711;

void decide_own_keys(Peer& peer) {
  const uint32_t wanted = peer.read().getHello().getWantedShard();  // 0: none
  const uint32_t own = wanted > 0 ? wanted - 1 : 0;
  peer.write(sluicegate::test::welcome(4, {own, 2, routing_seed}));
  for (;;) {
    const auto frame = peer.read();
    const auto acquire = frame.getAcquire();
    std::vector<uint8_t> verdicts;
    const char* key = acquire.getKeys().asChars().begin();
    for (const uint16_t bytes : acquire.getKeySizes()) {
      const uint64_t hash = proto::routing_hash({key, bytes}, routing_seed);
      verdicts.push_back(proto::owner_shard(hash, 2) == own ? 1 : 2);
      key += bytes;
    }
    peer.write(sluicegate::test::verdicts(frame.getId(), static_cast<unsigned>(verdicts.size()),
                                          verdicts));
  }
}

TEST(BenchCommand, route_sends_every_key_to_its_shard) {
  for (const char* distribution : {"uniform", "one"}) {
    const FakeServer server{decide_own_keys, 1 + 3};
    testing::internal::CaptureStdout();
    EXPECT_EQ(bench(at(server, 3) + " --route --distribution " + distribution)(), 0);
    const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    EXPECT_GT(line["approved"], 0);
    EXPECT_EQ(line["denied"], 0) << "a key came to a shard that does not own it";
    EXPECT_EQ(line["distinct_keys"], distribution == std::string{"one"} ? 1 : 100);
    EXPECT_EQ(line["parameters"]["route"], true);
    EXPECT_EQ(line["parameters"]["shards"], 2);
  }
}

TEST(BenchCommand, without_route_keys_go_anywhere) {
  const FakeServer server{decide_own_keys, connections_count};
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench(at(server))(), 0);
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_GT(line["denied"], 0);
  EXPECT_EQ(line["parameters"]["route"], false);
  EXPECT_EQ(line["parameters"]["shards"], 2);
}

TEST(BenchCommand, route_with_a_single_shard_is_trivial) {
  const FakeServer server{decide_by_cost, connections_count};
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench(at(server) + " --route")(), 0);
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(line["distinct_keys"], 100);
  EXPECT_EQ(line["parameters"]["shards"], 1);
}

TEST(BenchCommand, route_needs_a_connection_to_each_shard_and_says_so) {
  const FakeServer server{decide_own_keys, connections_count};
  try {
    bench(at(server) + " --route")();
    ADD_FAILURE() << "one connection is not enough for two shards";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("--connections 2"), std::string::npos) << error.what();
  }
}

TEST(BenchCommand, route_ends_where_the_server_gives_another_shard) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome(4, {0, 2, routing_seed}));
                            peer.at_end();
                          },
                          1 + 2};
  try {
    bench(at(server, 2) + " --route")();
    ADD_FAILURE() << "the second connection is not served by shard 1";
  } catch (const sluicegate::ProtocolError& error) {
    EXPECT_NE(std::string{error.what()}.find("asked for shard 1 and got shard 0"),
              std::string::npos)
        << error.what();
  }
}

TEST(BenchCommand, refuses_flags_that_do_not_go_together) {
  EXPECT_THROW(bench("--denied-share 1.5"), CLI::ParseError);
  EXPECT_THROW(bench("--distribution normal"), CLI::ParseError);
  EXPECT_THROW(bench("--address a:1 --server-cpu 0"), CLI::ParseError);
  EXPECT_THROW(bench("--address a:1 --shards 2"), CLI::ParseError);
  EXPECT_THROW(bench("--shards 0"), CLI::ParseError);
  EXPECT_THROW(bench("--server-cpu 0,x"), CLI::ParseError);
  EXPECT_NO_THROW(bench("--server-cpu 0,1 --shards 2 --route"));
  EXPECT_THROW(bench("--server-pid 1"), CLI::ParseError);
  EXPECT_ANY_THROW(bench("--address nowhere")());
}

}  // namespace
}  // namespace sluice::cli
