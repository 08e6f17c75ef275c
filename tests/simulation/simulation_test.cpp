// Server and clients in one thread, over a kernel that does everything wrong that a kernel may.
// Each seed draws its own options, clients and faults; the oracle checks every entry.
#include <gtest/gtest.h>

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "api/verdict.hpp"
#include "io/sim/sim_faults.hpp"
#include "run.hpp"

namespace sluice::simulation {
namespace {

constexpr uint64_t operations_each = 2'000;

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string repeat_command(uint64_t seed) {
  char path[4'096] = "simulation_test";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length > 0) path[length] = '\0';
  return "SEED=" + std::to_string(seed) + " " + path + " --gtest_filter=Simulation.every_seed_*";
}

// A broken assertion ends the process: the seed must be told even so.
std::string command_of_this_run;

void tell_seed() {
  const auto told = write(STDERR_FILENO, command_of_this_run.data(), command_of_this_run.size());
  static_cast<void>(told);
}

void on_abort(int) {
  tell_seed();
}

struct Totals {
  uint64_t runs = 0;
  uint64_t operations = 0;
  uint64_t entries = 0;
  uint64_t turns = 0;
  uint64_t drained = 0;
  uint64_t evicted = 0;
  std::array<uint64_t, io::faults_count> faults{};
  std::array<uint64_t, 16> verdicts{};

  void add(const RunResult& result) {
    ++runs;
    operations += result.operations;
    entries += result.entries;
    turns += result.turns;
    drained += result.drained;
    evicted += result.evicted;
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += result.faults[i];
    for (size_t i = 0; i < verdicts.size(); ++i) verdicts[i] += result.verdicts[i];
  }
};

TEST(Simulation, every_seed_agrees_with_the_model_and_drains) {
  const bool one = std::getenv("SEED") != nullptr;
  const uint64_t first = number_from_environment("SEED", 1);
  const uint64_t count = one ? 1 : number_from_environment("SEEDS", 1'000);
  std::signal(SIGABRT, on_abort);
  Totals totals;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    command_of_this_run = "\nrepeat with: " + repeat_command(seed) + "\n";
    const RunResult result = simulate(seed, operations_each);
    totals.add(result);
    ASSERT_EQ(result.failure, "") << command_of_this_run;
  }
  std::signal(SIGABRT, SIG_DFL);

  std::printf("%lu seeds, %lu operations, %lu entries, %lu turns, %lu drained early\n", totals.runs,
              totals.operations, totals.entries, totals.turns, totals.drained);
  for (uint32_t fault = 0; fault < io::faults_count; ++fault) {
    const auto name = std::string(io::fault_name(static_cast<io::Fault>(fault)));
    std::printf("%12lu %s\n", totals.faults[fault], name.c_str());
    const bool between_cores = fault >= static_cast<uint32_t>(io::Fault::delayed_wake);
    if (!one && !between_cores) {  // these runs have one core
      EXPECT_GT(totals.faults[fault], 0u) << name << " never fired";
    }
  }
  for (uint32_t verdict = 1; verdict < api::verdicts_count; ++verdict) {
    const auto name = std::string(api::verdict_name(static_cast<api::Verdict>(verdict)));
    std::printf("%12lu entries %s\n", totals.verdicts[verdict], name.c_str());
  }
  if (!one) {
    EXPECT_GT(totals.evicted, 0u);
  }
}

}  // namespace
}  // namespace sluice::simulation
