// Which seeds a simulation plays: those that were red once, a few fresh ones, which it prints, and
// the first of all.
// Shape:  a line of the file of red seeds is a test, a seed and what it found; `#` begins a
//         comment. In the environment SEED=n plays that one only, SEEDS=n and FRESH_SEEDS=n change
//         how many there are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_folder.hpp"

namespace sluice::test {

struct SeedPlan {
  std::string test;
  std::vector<std::string> tests;  // all that the file may name
  std::string red_seeds;           // the file, below the source folder
  uint64_t seeds_count = 0;
  uint64_t fresh_seeds_count = 0;
};

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline std::vector<uint64_t> red_seeds(const SeedPlan& plan) {
  std::ifstream file(source_folder() / plan.red_seeds);
  EXPECT_TRUE(file) << plan.red_seeds << " cannot be read";
  std::vector<uint64_t> seeds;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string test;
    uint64_t seed = 0;
    words >> test >> seed;
    EXPECT_TRUE(words && std::ranges::count(plan.tests, test) > 0) << line;
    if (test == plan.test) seeds.push_back(seed);
  }
  return seeds;
}

inline std::vector<uint64_t> seeds_to_play(const SeedPlan& plan) {
  if (std::getenv("SEED") != nullptr) return {number_from_environment("SEED", 1)};
  std::vector<uint64_t> seeds = red_seeds(plan);
  std::random_device entropy;
  std::printf("fresh seeds:");
  for (uint64_t i = number_from_environment("FRESH_SEEDS", plan.fresh_seeds_count); i > 0; --i) {
    seeds.push_back(entropy());
    std::printf(" %lu", seeds.back());
  }
  std::printf("\n");
  std::fflush(stdout);
  const uint64_t count = number_from_environment("SEEDS", plan.seeds_count);
  for (uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace sluice::test
