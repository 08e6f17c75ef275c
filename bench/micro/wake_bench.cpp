// Measures the cost of waking a sleeping thread: two threads, each in the poll() of its own Io,
// wake each other alternately, pinned to cores 0 and 1 where these exist. The time is that of two
// wakes, there and back, the CPU time that of both sides; `p50_us` is the median of one wake.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "io/options.hpp"
#include "io/probe.hpp"
#include "load/clocks.hpp"

namespace sluice::io {
namespace {

constexpr int64_t wait_ns = base::ns_per_s;

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void sleep_until_woken(Io& io) {
  std::array<Event, 8> events;
  while (io.poll(events, wait_ns) == 0) {
  }
}

void wake_and_be_woken(benchmark::State& state, base::IoBackend backend) {
  pin_to(0);
  const auto here = make_io({.backend = backend}, Options{}).io;
  std::atomic<Io*> there{nullptr};
  std::atomic<bool> ends{false};
  std::thread other{[&] {
    pin_to(1);
    const auto io = make_io({.backend = backend}, Options{}).io;  // on the thread that polls it
    there = io.get();
    for (sleep_until_woken(*io); !ends; sleep_until_woken(*io)) here->wake();
    there = nullptr;
  }};
  while (there == nullptr) std::this_thread::yield();
  std::vector<uint64_t> there_and_back_ns;
  for (auto _ : state) {
    const uint64_t begin_ns = load::now_ns();
    there.load()->wake();
    sleep_until_woken(*here);
    there_and_back_ns.push_back(load::now_ns() - begin_ns);
  }
  ends = true;
  there.load()->wake();
  other.join();
  const auto middle = there_and_back_ns.begin() + std::ssize(there_and_back_ns) / 2;
  std::nth_element(there_and_back_ns.begin(), middle, there_and_back_ns.end());
  state.counters["p50_us"] = static_cast<double>(*middle) / 2 / 1e3;
}

BENCHMARK_CAPTURE(wake_and_be_woken, uring, base::IoBackend::uring)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(wake_and_be_woken, epoll, base::IoBackend::epoll)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace sluice::io

BENCHMARK_MAIN();
