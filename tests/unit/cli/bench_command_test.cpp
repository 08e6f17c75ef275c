// Goal: `bench` runs its closed loop and reports the server's real answers. Method: the subcommand
//       against a scripted server that decides in a known way.
#include "cli/bench_command.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "proto/key_hash.hpp"
#include "sluicegate/error.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;

// The load tool checks that the server is there before it connects for the run.
constexpr int connections_count = 2;

std::function<int()> bench(const std::string& flags) {
  CLI::App app;
  std::function<int()> run;
  add_bench_command(app, run);
  app.parse("bench " + flags);
  return run;
}

std::string at(const FakeServer& server, int connections = 1, const char* keys = "100",
               const char* seconds = "0.05") {
  return "--address 127.0.0.1:" + std::to_string(server.port()) + " --connections " +
         std::to_string(connections) + " --window 4 --batch 8 --warm-up-seconds 0 --json --keys " +
         keys + " --seconds " + seconds;
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

TEST(BenchCommand, reports_the_decisions_of_the_server) {
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
  EXPECT_TRUE(line["server_cpu_s"].is_null()) << "--server-pid is not given";
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

TEST(BenchCommand, route_requires_a_connection_to_each_shard) {
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

TEST(BenchCommand, the_client_asks_the_same_as_the_frames) {
  for (const char* client : {"", " --client"}) {
    const FakeServer server{decide_by_cost, connections_count};
    testing::internal::CaptureStdout();
    EXPECT_EQ(bench(at(server) + " --denied-share 0.25" + client)(), 0);
    const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    EXPECT_EQ(line["rung"], *client != '\0' ? "R5" : "R4");
    EXPECT_EQ(line["handles"], false);
    EXPECT_EQ(line["outstanding"], 4 * 8);
    EXPECT_EQ(line["distinct_keys"], 100);
    EXPECT_NEAR(line["denied_share"], 0.25, 0.01);
    EXPECT_EQ(line["parameters"]["denied_by"], "cost");
    EXPECT_GT(line["client_system_calls"], 0);
    EXPECT_GT(line["client_cpu_ns_per_decision"], 0);
    EXPECT_TRUE(line["server_cpu_ns_per_decision"].is_null());
    // Of a frame of eight keys of 15 bytes, with its costs: 12 words before the columns.
    EXPECT_NEAR(line["bytes_out_per_decision"], (11 + 15 + 2 + 4) * 8 / 8.0, 4);
    EXPECT_TRUE(line["open_loop"].is_null());
  }
}

// Assigns handles from a range of the connection, approves those, and denies requests by key once
// handles were assigned.
void decide_by_handle(Peer& peer) {
  static std::atomic<uint32_t> connections{0};
  const uint32_t first_handle = 1'000 * ++connections;
  uint32_t given = 0;
  peer.read();
  peer.write(sluicegate::test::welcome());
  for (;;) {
    const auto frame = peer.read();
    if (frame.isIntern()) {
      std::vector<uint32_t> handles;
      for (size_t i = 0; i < frame.getIntern().getKeySizes().size(); ++i) {
        handles.push_back(first_handle + given++);
      }
      peer.write(sluicegate::test::interned(frame.getId(), handles, {1}));
      continue;
    }
    std::vector<uint8_t> verdicts;
    if (frame.isAcquire()) {
      verdicts.assign(frame.getAcquire().getKeySizes().size(), 2);
    } else {
      for (const uint32_t handle : frame.getAcquireByHandle().getHandles()) {
        verdicts.push_back(handle - first_handle < given ? 1 : 9);
      }
    }
    peer.write(sluicegate::test::verdicts(frame.getId(), static_cast<unsigned>(verdicts.size()),
                                          verdicts));
  }
}

TEST(BenchCommand, every_connection_asks_by_handles_of_its_own) {
  for (const char* client : {"", " --client"}) {
    for (const char* distribution : {"uniform", "zipf", "one"}) {
      const FakeServer server{decide_by_handle, 1 + 3};
      testing::internal::CaptureStdout();
      EXPECT_EQ(bench(at(server, 3) + " --handles --distribution " + distribution + client)(), 0);
      const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
      EXPECT_EQ(line["handles"], true);
      EXPECT_GT(line["approved"], 0);
      EXPECT_EQ(line["approved"], line["decisions"]) << "a handle of another connection, or a key";
      const int keys = distribution == std::string{"one"} ? 1 : 100;
      EXPECT_LE(line["distinct_keys"], keys);
      // A busy machine may stop us for a while.
      if (line["decisions"] > 10'000) {
        EXPECT_EQ(line["distinct_keys"], keys);
      }
    }
  }
}

TEST(BenchCommand, too_many_keys_for_the_handles_of_a_connection_are_refused) {
  const FakeServer server{decide_by_handle, connections_count};
  try {
    bench(at(server, 1, "1001") + " --handles")();
    ADD_FAILURE() << "the server has room for 1,000 handles";
  } catch (const sluicegate::LimitExceeded& error) {
    EXPECT_NE(std::string{error.what()}.find("more --connections"), std::string::npos)
        << error.what();
  }
}

TEST(BenchCommand, an_open_loop_asks_at_its_rate) {
  for (const char* client : {"", " --client"}) {
    const FakeServer server{decide_by_cost, 1 + 2};
    testing::internal::CaptureStdout();
    EXPECT_EQ(bench(at(server, 2, "100", "0.2") + " --rate 4000" + client)(), 0);
    const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    // On a busy machine the clock may begin some frames behind the schedule.
    const auto late = line["outstanding"].get<double>();
    EXPECT_LE(line["decisions"], 4000 * line["seconds"].get<double>() + 2 * 8 + late);
    EXPECT_EQ(line["open_loop"]["rate"], 4000);
    // A busy machine may stop us for a while.
    const bool kept_up = line["open_loop"]["kept_up"];
    EXPECT_GE(line["decisions"], kept_up ? 700 : 0);
  }
}

TEST(BenchCommand, an_open_loop_reports_that_the_server_is_too_slow) {
  const FakeServer server{[](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome());
                            for (;;) {
                              const auto frame = peer.read();
                              std::this_thread::sleep_for(std::chrono::milliseconds{5});
                              const auto count = frame.getAcquire().getKeySizes().size();
                              peer.write(sluicegate::test::verdicts(frame.getId(), count, {1}));
                            }
                          },
                          connections_count};
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench(at(server, 1, "100", "0.2") + " --rate 100000")(), 0);
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(line["open_loop"]["kept_up"], false);
  EXPECT_LT(line["open_loop"]["rate_met"], 10'000);
  EXPECT_GT(line["open_loop"]["behind_s"], 0.1);
  EXPECT_GT(line["latency_us"]["max"], 50'000) << "the wait before the send counts";
}

using WelcomeBuilder = sluicegate::test::schema::Welcome::Builder;

// What the run of `flags` ends with, at a server of this Welcome that reads nothing.
std::string refusal_of(const std::string& flags,
                       const std::function<void(WelcomeBuilder)>& change) {
  const FakeServer server{[&](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome_with(change));
                            peer.at_end();
                          },
                          connections_count};
  try {
    bench(at(server) + flags)();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no exception";
}

TEST(BenchCommand, a_load_beyond_welcome_is_refused_with_the_limit) {
  EXPECT_EQ(refusal_of("", [](WelcomeBuilder to) { to.setFrameEntriesMax(7); }),
            "--batch 8: this server allows 7");
  EXPECT_EQ(refusal_of("", [](WelcomeBuilder to) { to.setFrameBytesMax(64); }),
            "frames of 240 bytes: this server allows 64");
  EXPECT_EQ(refusal_of("", [](WelcomeBuilder to) { to.setOutstandingBytesMax(900); }),
            "--window 4 with frames of 240 bytes: this server allows 3");
  EXPECT_EQ(refusal_of(" --handles", [](WelcomeBuilder to) { to.setHandlesMax(0); }),
            "this server has no handles: run without --handles");
  EXPECT_EQ(refusal_of(" --route", [](WelcomeBuilder to) { to.setShards(0); }),
            "this server does not announce which shard owns a key: run without --route or "
            "--misroute");
}

TEST(BenchCommand, connections_that_reach_different_servers_end_the_run) {
  std::atomic<uint32_t> connections{0};
  const FakeServer server{[&](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome(4, {0, 1, ++connections}));
                            peer.at_end();
                          },
                          connections_count};
  EXPECT_THROW(bench(at(server) + " --route")(), sluicegate::ProtocolError);
}

// Answers each frame with `answer`, from the first one after the preparation's or, with none, from
// the start.
FakeServer::Script answering(const std::function<std::string(uint64_t id, unsigned count)>& answer,
                             uint32_t preparation_frames) {
  return FakeServer::welcoming([answer, preparation_frames](Peer& peer) {
    for (uint32_t frames = 0;; ++frames) {
      const auto frame = peer.read();
      const unsigned count = frame.getAcquire().getKeySizes().size();
      peer.write(frames < preparation_frames ? sluicegate::test::verdicts(frame.getId(), count, {1})
                                             : answer(frame.getId(), count));
    }
  });
}

TEST(BenchCommand, a_refused_preparation_ends_the_run) {
  const auto refuse = [](uint64_t id, unsigned) {
    return sluicegate::test::error(id, sluicegate::test::schema::ErrorCode::BAD_COST, "no");
  };
  const FakeServer refusing{answering(refuse, 0), connections_count};
  EXPECT_THROW(bench(at(refusing))(), sluicegate::Refused);

  constexpr uint8_t not_allowed = 7;
  const auto forbid = [](uint64_t id, unsigned count) {
    return sluicegate::test::verdicts(id, count, {not_allowed});
  };
  const FakeServer forbidding{answering(forbid, 0), connections_count};
  try {
    bench(at(forbidding) + " --denied-share 0.5")();
    ADD_FAILURE() << "the server took no limits";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("--requests-can-set-rate=true"), std::string::npos)
        << error.what();
  }
}

TEST(BenchCommand, a_warm_up_of_refusals_only_ends_the_run) {
  const auto refuse = [](uint64_t id, unsigned) {
    return sluicegate::test::error(id, sluicegate::test::schema::ErrorCode::BAD_COST, "no such");
  };
  const FakeServer server{answering(refuse, 1), connections_count};
  try {
    bench("--address 127.0.0.1:" + std::to_string(server.port()) +
          " --connections 1 --window 4 --batch 8 --warm-up-seconds 0.05 --keys 100")();
    ADD_FAILURE() << "every frame was refused";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string{error.what()}, "the server answered nothing: no such");
  }
}

// The preparation sends keys in frames as large as the server takes, two at a time where they fit.
TEST(BenchCommand, the_preparation_keeps_to_the_bytes_that_may_be_outstanding) {
  std::atomic<uint32_t> frames{0};
  const FakeServer server{[&](Peer& peer) {
                            peer.read();
                            peer.write(sluicegate::test::welcome_with(
                                [](WelcomeBuilder to) { to.setOutstandingBytesMax(160 * 1024); }));
                            for (;; ++frames) {
                              const auto frame = peer.read();
                              const unsigned count = frame.getAcquire().getKeySizes().size();
                              peer.write(sluicegate::test::verdicts(frame.getId(), count, {1}));
                            }
                          },
                          connections_count};
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench(at(server, 1, "9000") + " --key-bytes 60")(), 0);
  EXPECT_EQ(nlohmann::json::parse(testing::internal::GetCapturedStdout())["denied"], 0);
  EXPECT_GT(frames, 4u);
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
