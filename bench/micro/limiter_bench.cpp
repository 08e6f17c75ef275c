// Measures the arithmetic of a fixed window by itself: taking a permit, refusing one and moving on
// to the next window, with the counters in the L1 cache.
// Method: 256 windows in rotation; the compiler knows neither them nor the limits. Reports items
// (calls).
#include <benchmark/benchmark.h>

#include <vector>

#include "limiter/fixed_window.hpp"

namespace sluice::limiter {
namespace {

constexpr size_t windows_count = 256;
constexpr int64_t window_ms = 1'000;

std::vector<FixedWindow> windows() {
  return std::vector(windows_count, FixedWindow::starting_at(0, window_ms));
}

void count_calls(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * windows_count));
}

// Calls `step(window)` for each window, over and over.
template <typename Step>
void measure(benchmark::State& state, Step step) {
  std::vector<FixedWindow> all = windows();
  for (auto _ : state) {
    for (FixedWindow& window : all) {
      step(window);
      benchmark::DoNotOptimize(window);  // otherwise one instruction counts several windows
    }
  }
  count_calls(state);
}

void take(benchmark::State& state) {
  uint32_t limit = UINT32_MAX;
  benchmark::DoNotOptimize(limit);
  bool all_fit = true;
  measure(state, [&](FixedWindow& window) { all_fit &= window.take(1, limit); });
  if (!all_fit) state.SkipWithError("denied");
}
BENCHMARK(take);

void deny(benchmark::State& state) {
  uint32_t limit = 0;
  benchmark::DoNotOptimize(limit);
  bool some_fit = false;
  measure(state, [&](FixedWindow& window) {
    const bool fits = window.take(1, limit);
    if (!fits) window.deny();
    some_fit |= fits;
  });
  if (some_fit) state.SkipWithError("approved");
}
BENCHMARK(deny);

// How many windows after the last call: 0 is the case of nearly every decision, 1 is the next
// window; more are windows without requests, which cost a division.
void roll(benchmark::State& state) {
  int64_t length_ms = window_ms;
  benchmark::DoNotOptimize(length_ms);
  const int64_t later_ms = state.range(0) * window_ms;
  std::vector<FixedWindow> all = windows();
  int64_t now_ms = 1;
  for (auto _ : state) {
    now_ms += later_ms;
    benchmark::DoNotOptimize(now_ms);
    for (FixedWindow& window : all) {
      window.roll(now_ms, length_ms);
      benchmark::DoNotOptimize(window);
    }
  }
  if (all.front().over(now_ms)) state.SkipWithError("not rolled");
  count_calls(state);
}
BENCHMARK(roll)->ArgName("windows_later")->Arg(0)->Arg(1)->Arg(3);

}  // namespace
}  // namespace sluice::limiter

BENCHMARK_MAIN();
