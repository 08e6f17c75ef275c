// A server that keeps its state, its disk and its crashes in one thread: after each start, what was
// loaded is what the shards had at the instants of their cuts.
// Shape:  as simulation_test.cpp: the same seeds in every run, red ones, and a few fresh ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "log/log.hpp"
#include "state_run.hpp"
#include "tests/support/seeds.hpp"

namespace sluice::simulation {
namespace {

#ifdef SLUICE_ADDRESS_SANITIZER
constexpr uint64_t seeds_of_a_run = 30;
constexpr uint64_t fresh_seeds_of_a_run = 2;
#else
constexpr uint64_t seeds_of_a_run = 200;
constexpr uint64_t fresh_seeds_of_a_run = 1;
#endif

// A failed assertion ends the process: the seed must be printed even then.
std::string text_of_this_run;

void on_abort(int) {
  static_cast<void>(!write(STDERR_FILENO, text_of_this_run.data(), text_of_this_run.size()));
}

class StateSimulation : public testing::Test {
 protected:
  StateSimulation() {
    log::start({.level = log::Level::warning, .stream = file_});
    std::signal(SIGABRT, on_abort);
  }
  ~StateSimulation() override {
    std::signal(SIGABRT, SIG_DFL);
    EXPECT_TRUE(log::stop(std::chrono::minutes(1)));
    std::fclose(file_);
  }

  // Prints a count, and checks that it is not zero, unless only one seed is played.
  static void demand(uint64_t count, std::string_view name) {
    std::printf("%12lu %s\n", count, std::string(name).c_str());
    if (std::getenv("SEED") != nullptr) return;
    EXPECT_GT(count, 0U) << name;
  }

 private:
  std::FILE* file_ = std::fopen("/dev/null", "w");  // what a server logs by default
};

TEST_F(StateSimulation, every_start_has_what_was_durable) {
  StateRunResult sum;
  for (const uint64_t seed : test::seeds_to_play({.test = "every_start_*",
                             .tests = {"every_start_*"},
                             .red_seeds = "tests/simulation/state/red_seeds.txt",
                             .seeds_count = seeds_of_a_run,
                             .fresh_seeds_count = fresh_seeds_of_a_run})) {
    text_of_this_run = "\nrepeat with SEED=" + std::to_string(seed) +
                       " and keep the seed in tests/simulation/state/red_seeds.txt\n";
    const StateRunResult result = simulate_state(seed);
    ASSERT_EQ(result.failure, "") << text_of_this_run;
    sum += result;
  }
  demand(sum.starts, "starts");
  demand(sum.loads, "starts with something to load");
  demand(sum.other_shards, "with another number of shards");
  demand(sum.clocks_back, "wall clocks set back");
  demand(sum.calls, "calls");
  demand(sum.reservations, "reservations loaded");
  demand(sum.of_several_subjects, "reservations of several subjects compared");
  demand(sum.came_apart, "of them, come apart to several shards");
  demand(sum.parts_refunded, "parts refunded");
  demand(sum.compared, "amounts compared");
  demand(sum.incomplete, "subjects with calls under way between shards");
  for (uint32_t index = 0; index < state_events_count; ++index) {
    demand(sum.events[index], state_event_name(static_cast<StateEvent>(index)));
  }
}

}  // namespace
}  // namespace sluice::simulation
