// Fleets of nodes and their clients in one thread, with routes that are cut and nodes that pause
// and crash. Each seed draws its own fleet and faults; the oracle checks every entry.
// Shape:  the same seeds in every run, those that were red before (red_seeds.txt), and a few fresh
//         ones, which the run prints.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fleet_run.hpp"
#include "log/log.hpp"
#include "tests/support/seeds.hpp"

namespace sluice::simulation {
namespace {

#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t seeds_of_a_run = 1;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#else
constexpr uint64_t seeds_of_a_run = 20;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#endif
// So many play every event.
constexpr uint64_t seeds_with_all_events = 20;

std::string command_of_this_run;

void on_abort(int) {
  const auto reported =
      write(STDERR_FILENO, command_of_this_run.data(), command_of_this_run.size());
  static_cast<void>(reported);
}

std::string repeat_command(uint64_t seed, const std::string& test) {
  char path[4'096] = "fleet_simulation_test";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length > 0) path[length] = '\0';
  return "\nrepeat with: SEED=" + std::to_string(seed) + " " + path + " --gtest_filter=Fleet." +
         test + "\nand keep the seed in tests/simulation/fleet/red_seeds.txt\n";
}

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
  return test::seeds_to_play(
      {.test = test,
       .tests = {"two_nodes_*", "three_nodes_*", "five_nodes_*", "undisturbed_*"},
       .red_seeds = "tests/simulation/fleet/red_seeds.txt",
       .seeds_count = seeds_of_a_run,
       .fresh_seeds_count = fresh_seeds_of_a_run});
}

void print(uint64_t count, const std::string& what) {
  std::printf("%12lu %s\n", count, what.c_str());
}

// Plays the seeds, and demands the events that `demanded` allows.
template <typename Demanded>
void play(const std::string& test, const FleetKind& kind, Demanded demanded) {
  const Log log;
  std::signal(SIGABRT, on_abort);
  FleetCounts events{};
  uint64_t calls = 0;
  uint64_t runs = 0;
  int64_t simulated_ns = 0;
  for (const uint64_t seed : seeds_of(test)) {
    command_of_this_run = repeat_command(seed, test);
    const FleetResult result = simulate_fleet(seed, kind);
    ASSERT_EQ(result.failure, "") << command_of_this_run;
    for (size_t i = 0; i < events.size(); ++i) events[i] += result.events[i];
    calls += result.calls;
    simulated_ns += result.simulated_ns;
    ++runs;
  }
  std::signal(SIGABRT, SIG_DFL);
  print(runs, "fleets");
  print(static_cast<uint64_t>(simulated_ns / 1'000'000'000), "simulated seconds");
  print(calls, "entries");
  for (uint32_t i = 0; i < events.size(); ++i) {
    print(events[i], std::string(fleet_event_names[i]));
    if (runs >= seeds_with_all_events && demanded(static_cast<FleetEvent>(i))) {
      EXPECT_GT(events[i], 0u) << fleet_event_names[i] << " never happened";
    }
  }
}

bool is_of_calm_fleets(FleetEvent event) {
  using enum FleetEvent;
  return event == decided_at_entry || event == decided_by_owner || event == queued_by_owner ||
         event == granted_by_owner || event == left_owner || event == grant_crossed;
}

TEST(Fleet, undisturbed_nodes_keep_every_limit) {
  play("undisturbed_*", {.nodes = 3, .has_faults = false}, is_of_calm_fleets);
}

TEST(Fleet, two_nodes_keep_every_limit) {
  play("two_nodes_*", {.nodes = 2}, [](FleetEvent) { return true; });
}

TEST(Fleet, three_nodes_keep_every_limit) {
  play("three_nodes_*", {.nodes = 3}, [](FleetEvent) { return true; });
}

TEST(Fleet, five_nodes_keep_every_limit) {
  play("five_nodes_*", {.nodes = 5}, [](FleetEvent) { return true; });
}

}  // namespace
}  // namespace sluice::simulation
