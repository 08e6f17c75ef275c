// Server and clients in one thread, over a kernel with every fault that a real one may have.
// Each seed draws its own options, clients and faults; the oracle checks every entry.
// Shape:  the same seeds in every run, those that were red before (red_seeds.txt), and a few fresh
//         ones, which the run prints.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "api/verdict.hpp"
#include "io/sim/sim_faults.hpp"
#include "log/log.hpp"
#include "run.hpp"
#include "tests/support/seeds.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t operations_each = 2'000;

// Enough that everything happens that demand_all() checks; `tools/test long` runs more. Fewer under
// sanitizers, which look for other bugs than wrong decisions.
#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t seeds_of_a_run = 50;
constexpr uint64_t fresh_seeds_of_a_run = 2;
#else
constexpr uint64_t seeds_of_a_run = 300;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#endif

std::string repeat_command(uint64_t seed, const std::string& test) {
  char path[4'096] = "simulation_test";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length > 0) path[length] = '\0';
  return "SEED=" + std::to_string(seed) + " " + path + " --gtest_filter=Simulation." + test;
}

// A failed assertion ends the process: the seed must be printed even then.
std::string command_of_this_run;

void print_seed() {
  const auto reported =
      write(STDERR_FILENO, command_of_this_run.data(), command_of_this_run.size());
  static_cast<void>(reported);
}

void on_abort(int) {
  print_seed();
}

struct Totals {
  uint64_t runs = 0;
  uint64_t operations = 0;
  uint64_t entries = 0;
  uint64_t by_handle = 0;
  uint64_t handles_full = 0;
  uint64_t turns = 0;
  uint64_t drained = 0;
  uint64_t evicted = 0;
  uint64_t adopted = 0;
  std::array<uint64_t, io::faults_count> faults{};
  std::array<uint64_t, api::verdicts_count> verdicts{};
  ShardCounts shard_events{};
  std::array<uint64_t, quota_events_count> quota_events{};
  std::array<uint64_t, connection_events_count> connection_events{};
  Http2Counts http2_events{};
  StateCounts state_events{};
  uint64_t usages_checked = 0;

  void add(const RunResult& result) {
    ++runs;
    operations += result.operations;
    entries += result.entries;
    by_handle += result.by_handle;
    handles_full += result.handles_full;
    turns += result.turns;
    drained += result.drained;
    evicted += result.evicted;
    adopted += result.adopted;
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += result.faults[i];
    for (size_t i = 0; i < verdicts.size(); ++i) verdicts[i] += result.verdicts[i];
    for (size_t i = 0; i < shard_events.size(); ++i) shard_events[i] += result.shard_events[i];
    for (size_t i = 0; i < quota_events.size(); ++i) quota_events[i] += result.quota_events[i];
    for (size_t i = 0; i < connection_events.size(); ++i) {
      connection_events[i] += result.connection_events[i];
    }
    for (size_t i = 0; i < http2_events.size(); ++i) http2_events[i] += result.http2_events[i];
    for (size_t i = 0; i < state_events.size(); ++i) state_events[i] += result.state_events[i];
    usages_checked += result.usages_checked;
  }
};

constexpr uint64_t runs_with_rare_events = 100;

// Logs what a server logs by default, to nowhere.
class Log {
 public:
  Log() { log::start({.level = log::Level::warning, .stream = file_}); }
  ~Log() {
    EXPECT_TRUE(log::stop(std::chrono::minutes(1)));
    std::fclose(file_);
  }

 private:
  std::FILE* file_ = std::fopen("/dev/null", "w");
};

std::vector<uint64_t> seeds_of(const std::string& test) {
  return test::seeds_to_play({.test = test,
                              .tests = {"every_seed_*", "several_shards_*"},
                              .red_seeds = "tests/simulation/red_seeds.txt",
                              .seeds_count = seeds_of_a_run,
                              .fresh_seeds_count = fresh_seeds_of_a_run});
}

// Runs seeds with these numbers of shards in turn, and adds up their results.
Totals play(const std::string& test, const std::vector<uint32_t>& shards) {
  const Log log;
  const std::vector<uint64_t> seeds = seeds_of(test);
  std::signal(SIGABRT, on_abort);
  Totals totals;
  for (const uint64_t seed : seeds) {
    command_of_this_run = "\nrepeat with: " + repeat_command(seed, test) +
                          "\nand keep the seed in tests/simulation/red_seeds.txt\n";
    const RunResult result = simulate(seed, operations_each, shards[seed % shards.size()]);
    totals.add(result);
    EXPECT_EQ(result.failure, "") << command_of_this_run;
    if (testing::Test::HasFailure()) break;
  }
  std::signal(SIGABRT, SIG_DFL);
  return totals;
}

void print_totals(const Totals& totals) {
  std::printf("%lu seeds, %lu operations, %lu entries, %lu turns, %lu drained early\n", totals.runs,
              totals.operations, totals.entries, totals.turns, totals.drained);
  std::printf("%12lu new rules\n", totals.adopted);
  std::printf("%12lu entries decided by handle, %lu keys that got no handle\n", totals.by_handle,
              totals.handles_full);
  for (uint32_t verdict = 1; verdict < api::verdicts_count; ++verdict) {
    const auto name = std::string(api::verdict_name(static_cast<api::Verdict>(verdict)));
    std::printf("%12lu entries %s\n", totals.verdicts[verdict], name.c_str());
  }
}

// Prints `counts`, and checks that the first `demanded_count` of them happened; with one seed it
// only prints.
template <typename Counts, typename Name>
void demand_all(const Counts& counts, Name name, uint32_t demanded_count) {
  for (uint32_t index = 0; index < counts.size(); ++index) {
    const std::string text(name(index));
    std::printf("%12lu %s\n", counts[index], text.c_str());
    if (std::getenv("SEED") == nullptr && index < demanded_count) {
      EXPECT_GT(counts[index], 0u) << text << " never happened";
    }
  }
}

std::string_view name_of_fault(uint32_t index) {
  return io::fault_name(static_cast<io::Fault>(index));
}

std::string_view name_of_shard_event(uint32_t index) {
  return shard_event_name(static_cast<ShardEvent>(index));
}

std::string_view name_of_quota_event(uint32_t index) {
  return quota_event_name(static_cast<QuotaEvent>(index));
}

std::string_view name_of_connection_event(uint32_t index) {
  return connection_event_name(static_cast<ConnectionEvent>(index));
}

std::string_view name_of_http2_event(uint32_t index) {
  return http2_event_name(static_cast<Http2Event>(index));
}

std::string_view name_of_state_event(uint32_t index) {
  return state_event_name(static_cast<StateEvent>(index));
}

void demand_quotas(const Totals& totals, uint32_t events_count) {
  // A refused change is rare where few runs keep their state; few have shards with a single task.
  const bool is_short = totals.runs < runs_with_rare_events;
  const auto single_task = static_cast<uint32_t>(QuotaEvent::with_single_task);
  demand_all(totals.quota_events, name_of_quota_event,
             is_short ? std::min(events_count, single_task) : events_count);
  demand_all(totals.state_events, name_of_state_event,
             is_short ? static_cast<uint32_t>(StateEvent::not_durable) : state_events_count);
  std::printf("%12lu reported amounts that lie within the books\n", totals.usages_checked);
}

void demand_http2(const Totals& totals) {
  // A few runs may have no client that leaves its window closed for long enough.
  const bool is_short = totals.runs < runs_with_rare_events;
  demand_all(
      totals.http2_events, name_of_http2_event,
      static_cast<uint32_t>(is_short ? Http2Event::closed_window : Http2Event::refused_stream));
}

TEST(Simulation, every_seed_agrees_with_the_model_and_drains) {
  const Totals totals = play("every_seed_*", {1});
  if (HasFailure()) return;
  print_totals(totals);
  demand_all(totals.faults, name_of_fault, static_cast<uint32_t>(io::Fault::delayed_wake));
  demand_quotas(totals, static_cast<uint32_t>(QuotaEvent::spread));
  demand_all(totals.connection_events, name_of_connection_event,
             static_cast<uint32_t>(ConnectionEvent::move_refused));
  demand_http2(totals);
  if (std::getenv("SEED") == nullptr) {
    EXPECT_GT(totals.evicted, 0u);
    EXPECT_GT(totals.adopted, 0u);
    EXPECT_GT(totals.by_handle, 0u);
    EXPECT_GT(totals.handles_full, 0u);
  }
}

TEST(Simulation, several_shards_agree_with_the_model_and_drain) {
  const Totals totals = play("several_shards_*", {2, 3, 2, 8});
  if (HasFailure()) return;
  print_totals(totals);
  demand_all(totals.faults, name_of_fault, io::faults_count);
  demand_all(totals.shard_events, name_of_shard_event, shard_events_count);
  demand_quotas(totals, quota_events_count);
  demand_all(totals.connection_events, name_of_connection_event, connection_events_count);
  demand_http2(totals);
  if (std::getenv("SEED") == nullptr) {
    EXPECT_GT(totals.drained, 0u);
    EXPECT_GT(totals.adopted, 0u);
    EXPECT_GT(totals.by_handle, 0u);
    EXPECT_GT(totals.handles_full, 0u);
  }
}

}  // namespace
}  // namespace sluice::simulation
