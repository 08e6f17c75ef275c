// Goal:   the client's threads share its state correctly, whatever their schedule.
// Method: the client with its real threads and clock, at a disturbed schedule, against the scripted
//         server over sockets; best under ThreadSanitizer. The judge checks what does not depend on
//         the clock: one outcome each, explained by what the server did, and nothing left over.
//         SEED=n repeats one, SEEDS=n plays that many, otherwise as many as `time_of_a_run` allows.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "caller.hpp"
#include "clients/cpp/src/client_impl.hpp"
#include "judge.hpp"
#include "options.hpp"
#include "real_network.hpp"
#include "scripted_server.hpp"

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto time_of_a_run = 20s;
constexpr auto longest_wait = 60s;  // finds calls that never end
constexpr uint32_t callers_count = 4;
constexpr uint32_t calls_of_a_caller = 25;

bool has_leftovers(ClientImpl& client) {
  for (uint32_t lane = 0; lane < client.lanes_count(); ++lane) {
    if (client.counts_of_lane(lane) != Lane::Counts{}) return true;
  }
  return false;
}

template <typename Condition>
bool in_time(Condition condition) {
  for (const auto end = Clock::now() + longest_wait; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

std::vector<std::string> play(uint64_t seed) {
  sluice::Dice dice{seed};
  const ClientOptions options = some_options(dice);
  const bool closes_early = dice.percent(20);
  RealNetwork network;
  Ledger ledger;
  ScriptedServer server{seed, network, ledger};
  network.start(server);
  DisturbedPlatform platform{seed << 32, network};
  CallBook book{[] { return Clock::now(); }};
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::string> complaints;
  Evidence evidence{.ledger = ledger, .calls = book.calls(), .options = options};
  {
    auto impl = std::make_unique<ClientImpl>(Address{"disturbed", 1}, options, platform);
    ClientImpl& inside = *impl;
    Client client{std::move(impl)};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < callers_count; ++i) {
      callers.push_back(
          std::make_unique<Caller>(i, seed * 100 + i, platform, client, options, book));
      threads.emplace_back([&caller = *callers.back()] { caller.run(calls_of_a_caller); });
    }
    if (closes_early) {
      std::this_thread::sleep_for(std::chrono::milliseconds{dice.below(200)});
      evidence.closed = Clock::now();
      client.close();
    }
    for (std::thread& each : threads) each.join();
    {
      const std::lock_guard lock{network.mutex()};
      server.calm_down();
    }
    for (const auto& each : callers) each->drop_reservations();
    if (!in_time([&] { return book.all_have_ended(); })) complaints.push_back("a call never ended");
    if (!closes_early && !in_time([&] { return !has_leftovers(inside); })) {
      complaints.push_back("the client's counts are not zero");
    }
    if (!closes_early && !in_time([&] { return client.settles().kept == 0; })) {
      complaints.push_back("a settle is still kept");
    }
    for (const auto& each : callers) evidence.kept.insert(each->kept().begin(), each->kept().end());
    {
      const std::lock_guard lock{network.mutex()};
      for (const auto& [connection, story] : ledger.connections) {
        if (!story.ended && server.is_connected(connection)) evidence.connected.insert(connection);
      }
    }
    client.close();
  }
  network.stop();
  const auto judged = judge(evidence);
  complaints.insert(complaints.end(), judged.begin(), judged.end());
  return complaints;
}

TEST(ClientThreads, disturbed_schedules_agree_with_the_model) {
  const char* const seed_given = std::getenv("SEED");
  const char* const seeds_given = std::getenv("SEEDS");
  const uint64_t first = seed_given == nullptr ? 1 : std::strtoull(seed_given, nullptr, 10);
  const uint64_t count = seeds_given != nullptr  ? std::strtoull(seeds_given, nullptr, 10)
                         : seed_given != nullptr ? 1
                                                 : UINT64_MAX;
  const auto begin = Clock::now();
  uint64_t played = 0;
  while (played < count && !HasFailure()) {
    if (seeds_given == nullptr && Clock::now() - begin > time_of_a_run) break;
    const uint64_t seed = first + played++;
    for (const std::string& each : play(seed)) ADD_FAILURE() << each << "\nSEED=" << seed;
  }
  std::printf("%lu schedules\n", played);
}

}  // namespace
}  // namespace sluicegate::simulation
