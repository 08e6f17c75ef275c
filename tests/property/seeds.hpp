// Where a property test's randomness comes from: SEED=n repeats one run, otherwise some fixed and
// one fresh seed; SEEDS_TIMES=n plays n times as many. A failing run names its seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

namespace sluice {

inline std::vector<uint64_t> property_seeds(uint64_t fixed_count) {
  if (const char* given = std::getenv("SEED")) return {std::strtoull(given, nullptr, 10)};
  const char* const times = std::getenv("SEEDS_TIMES");
  const uint64_t count = fixed_count * (times == nullptr ? 1 : std::strtoull(times, nullptr, 10));
  std::vector<uint64_t> seeds;
  for (uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  seeds.push_back(std::random_device{}());
  return seeds;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // One of 0 .. count - 1.
  uint64_t below(uint64_t count) { return engine_() % count; }
  bool percent(uint64_t chance) { return below(100) < chance; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace sluice
