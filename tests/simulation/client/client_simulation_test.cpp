// Goal:   in whatever order threads run and answers come, each caller of the C++ client sees what
//         the model says, and nothing is left over.
// Method: the whole client, its threads one at a time on a platform with a clock of its own,
//         against the scripted server. The seed decides everything: which thread goes on, how bytes
//         are cut, what the server does, what callers ask. SEED=n repeats one run, SEEDS=n and
//         FRESH_SEEDS=n play that many.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "caller.hpp"
#include "clients/cpp/src/client_impl.hpp"
#include "judge.hpp"
#include "options.hpp"
#include "scripted_server.hpp"
#include "sim_platform.hpp"
#include "tests/support/seeds.hpp"

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t seeds_of_a_run = 50;
constexpr uint64_t fresh_seeds_of_a_run = 2;
#else
constexpr uint64_t seeds_of_a_run = 200;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#endif
constexpr uint64_t seeds_with_everything = 50;     // in which each event happens
constexpr uint64_t seeds_with_each_outcome = 200;  // of each way to make a call
constexpr auto longest_run =
    60s;  // unless SEEDS says how many: a busy machine changes threads slowly
constexpr uint32_t calls_of_a_caller = 60;

// The ways to make a call: each can end in each way.
constexpr std::array<const char*, 6> shapes{"key calls",   "key callbacks",   "key batches",
                                            "quota calls", "quota callbacks", "quota batches"};

std::string shape_of(const MadeCall& call) {
  const size_t way = call.is_batch ? 2 : call.is_async ? 1 : 0;
  return shapes.at((call.is_quota ? 3 : 0) + way);
}

std::string outcome_of(const std::string& shape, Failure failure) {
  return "outcomes of " + shape + ": " + std::string{name(failure)};
}

struct Totals {
  uint64_t seeds = 0;
  uint64_t calls = 0;
  uint64_t switches = 0;
  std::map<std::string, uint64_t> events{};
};

class Played {
 public:
  Played(uint64_t seed, Totals& totals)
      : seed_{seed},
        totals_{totals},
        dice_{seed},
        options_{some_options(dice_)},
        platform_{seed},
        server_{seed + 1, platform_, ledger_},
        book_{[this] { return platform_.now(); }} {}

  std::vector<std::string> play() {
    platform_.listen(server_);
    std::vector<std::string> complaints;
    {
      auto impl = std::make_unique<ClientImpl>(Address{"simulated", 1}, options_, platform_);
      ClientImpl& inside = *impl;
      Client client{std::move(impl)};
      let_callers_call(client);
      if (!closed_) complaints = check_counts(inside);
      for (const auto& each : callers_) kept_.insert(each->kept().begin(), each->kept().end());
      const SettleCounts settles = client.settles();
      if (!closed_ && settles.kept > 0) {
        complaints.push_back(std::to_string(settles.kept) + " settles are still kept");
      }
      totals_.events["settles taken later"] += settles.settled;
      if (!closed_) note_connected();
      client.close();
    }
    const auto judged = judge({.ledger = ledger_,
                               .calls = book_.calls(),
                               .options = options_,
                               .has_exact_clock = true,
                               .failures = platform_.failures(),
                               .closed = closed_,
                               .connected = connected_,
                               .kept = kept_});
    complaints.insert(complaints.end(), judged.begin(), judged.end());
    if (platform_.shortest_pause() < options_.backoff_first / 2) {
      complaints.emplace_back("the client connected again before its pause was over");
    }
    add_totals();
    return complaints;
  }

 private:
  void let_callers_call(Client& client) {
    std::vector<std::thread> threads;
    const auto count = static_cast<uint32_t>(1 + dice_.below(5));
    for (uint32_t i = 0; i < count; ++i) {
      callers_.push_back(std::make_unique<Caller>(
          i, seed_ * 100 + i, platform_, client, options_, book_, [this](std::stop_source& stop) {
            platform_.run_undisturbed([&] { stop.request_stop(); });
          }));
      Caller& caller = *callers_.back();
      threads.push_back(platform_.start([&caller] { caller.run(calls_of_a_caller); }));
    }
    if (dice_.percent(20)) {
      platform_.pause(std::chrono::milliseconds{dice_.below(2'000)});
      closed_ = platform_.now();
      client.close();
    }
    for (std::thread& each : threads) platform_.join(each);
    server_.calm_down();
    for (const auto& each : callers_) each->drop_reservations();
    platform_.pause(60s);
  }

  std::vector<std::string> check_counts(ClientImpl& client) {
    std::vector<std::string> complaints;
    for (uint32_t lane = 0; lane < client.lanes_count(); ++lane) {
      const Lane::Counts counts = client.counts_of_lane(lane);
      if (counts == Lane::Counts{}) continue;
      complaints.push_back(
          "left over on lane " + std::to_string(lane) + ": " + std::to_string(counts.pending) +
          " calls, " + std::to_string(counts.callbacks) + " callbacks, " +
          std::to_string(counts.staged) + " staged, " + std::to_string(counts.in_flight) +
          " in flight with " + std::to_string(counts.in_flight_bytes) + " bytes, " +
          std::to_string(counts.waiting) + " waiting");
    }
    return complaints;
  }

  void note_connected() {
    for (const auto& [connection, story] : ledger_.connections) {
      if (!story.ended && server_.is_connected(connection)) connected_.insert(connection);
    }
  }

  void add_totals() {
    ++totals_.seeds;
    totals_.calls += book_.calls().size();
    totals_.switches += platform_.switches();
    for (const auto& [what, count] : ledger_.events) totals_.events[what] += count;
    for (const MadeCall& call : book_.calls()) {
      ++totals_.events["calls: " + call.kind];
      ++totals_.events[outcome_of(shape_of(call), call.result.failure)];
      if (call.cancelled && *call.cancelled > call.begin && !call.is_async) {
        ++totals_.events["calls stopped while they waited"];
      }
      for (const uint8_t code : call.result.codes) {
        const std::string_view text =
            call.is_quota ? name(static_cast<QuotaCode>(code)) : name(static_cast<Verdict>(code));
        ++totals_.events[std::string{call.is_quota ? "quota codes: " : "verdicts: "}.append(text)];
      }
    }
    for (const auto& [key, times] : ledger_.releases) {
      if (key.starts_with("k")) totals_.events["permits released"] += times;
    }
  }

  const uint64_t seed_;
  Totals& totals_;
  sluice::Dice dice_;
  const ClientOptions options_;
  SimPlatform platform_;
  Ledger ledger_;
  ScriptedServer server_;
  CallBook book_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::optional<Time> closed_;
  std::set<uint32_t> connected_;
  std::set<uint64_t> kept_;
};

std::string command_of_this_run;

void print_command(int) {
  const auto written = write(STDERR_FILENO, command_of_this_run.data(), command_of_this_run.size());
  static_cast<void>(written);
}

std::string repeat_command(uint64_t seed) {
  char path[4'096] = "client_simulation_test";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length > 0) path[length] = '\0';
  return "\nrepeat with: SEED=" + std::to_string(seed) + " " + path +
         "\nand keep the seed in tests/simulation/client/red_seeds.txt\n";
}

// For what happens in `seeds_count` seeds. A run that took too long is not silent about it.
bool plays_too_few(const Totals& totals, uint64_t seeds_count) {
  if (totals.seeds >= seeds_count) return false;
  std::printf("not all of it is demanded: that takes %lu seeds\n", seeds_count);
  return true;
}

TEST(ClientSimulation, every_caller_sees_what_the_model_says) {
  const bool is_one = std::getenv("SEED") != nullptr;
  const std::vector<uint64_t> seeds =
      sluice::test::seeds_to_play({.test = "every_caller_*",
                                   .tests = {"every_caller_*"},
                                   .red_seeds = "tests/simulation/client/red_seeds.txt",
                                   .seeds_count = seeds_of_a_run,
                                   .fresh_seeds_count = fresh_seeds_of_a_run});
  const bool is_limited = std::getenv("SEEDS") == nullptr;
  const auto begin = Clock::now();
  std::signal(SIGABRT, print_command);
  Totals totals;
  for (const uint64_t seed : seeds) {
    if (HasFailure()) break;
    if (is_limited && Clock::now() - begin > longest_run) break;
    command_of_this_run = repeat_command(seed);
    for (const std::string& each : Played{seed, totals}.play()) {
      ADD_FAILURE() << each << command_of_this_run;
    }
  }
  std::signal(SIGABRT, SIG_DFL);
  std::printf("%12lu seeds\n%12lu calls\n%12lu changes of the thread\n", totals.seeds, totals.calls,
              totals.switches);
  for (const auto& [what, times] : totals.events) std::printf("%12lu %s\n", times, what.c_str());
  if (is_one || HasFailure() || plays_too_few(totals, seeds_with_everything)) return;
  for (const char* what : {"connections closed",
                           "connections drained",
                           "restarts",
                           "frames queued",
                           "grants across a withdrawal",
                           "withdrawals done",
                           "broken answers",
                           "frames refused",
                           "batches by handle",
                           "permits released",
                           "settles taken later",
                           "calls stopped while they waited",
                           "verdicts: approved",
                           "verdicts: denied",
                           "verdicts: wait_limit",
                           "verdicts: withdrawn",
                           "quota codes: ok",
                           "quota codes: tpm_exceeded",
                           "quota codes: wait_limit",
                           "quota codes: withdrawn"}) {
    EXPECT_GT(totals.events[what], 0U) << what << " never happened";
  }
  if (plays_too_few(totals, seeds_with_each_outcome)) return;
  for (const char* shape : shapes) {
    for (uint8_t failure = 0; failure <= static_cast<uint8_t>(Failure::closed); ++failure) {
      const std::string what = outcome_of(shape, static_cast<Failure>(failure));
      EXPECT_GT(totals.events[what], 0U) << what << " never happened";
    }
  }
}

}  // namespace
}  // namespace sluicegate::simulation
